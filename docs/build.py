"""Builds `site/`: the pages of this folder and the reference pages generated from the source, as HTML.

python docs/build.py [--output site]

The site is static, asks for nothing from elsewhere, and opens from a file as well as from a server. A broken link, a
missing anchor or a page that the navigation does not know ends the build with exit code 1.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from website.navigation import SiteError
from website.site import build


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("site"))
    site: Path = parser.parse_args().output
    try:
        entries = build(site)
    except SiteError as error:
        sys.exit(f"error: {error}")
    print(f"{len(entries)} pages in {site}; open {site / 'index.html'}")


if __name__ == "__main__":
    main()
