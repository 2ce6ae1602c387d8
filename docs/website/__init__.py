"""Makes the site: pages and their order, the generated reference, Markdown to HTML, and the checks on the way."""
