"use strict";

const root = document.body.dataset.root;

// Light or dark: the system's choice until the reader makes one.
document.querySelector(".theme-button").addEventListener("click", () => {
  const now = document.documentElement.dataset.theme
    || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const next = now === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try { localStorage.setItem("theme", next); } catch (error) { /* a file without storage: for this page only */ }
});

const menu = document.getElementById("menu");
const menuButton = document.querySelector(".menu-button");
menuButton.addEventListener("click", () => {
  menuButton.setAttribute("aria-expanded", menu.classList.toggle("open"));
});

// Copying takes the commands of a console block, not their prompts.
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch (error) {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}
for (const button of document.querySelectorAll(".copy")) {
  button.addEventListener("click", async () => {
    const block = button.closest(".code");
    let text = block.querySelector("code").textContent;
    if (block.classList.contains("console")) text = text.replace(/^\$ /gm, "");
    await copyText(text);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}

// On a small screen the contents of the page begin folded.
const contents = document.querySelector(".contents");
if (contents && matchMedia("(max-width: 96rem)").matches) contents.open = false;
if (contents) {
  const links = new Map([...contents.querySelectorAll("a")].map((a) => [decodeURIComponent(a.hash.slice(1)), a]));
  const headings = [...document.querySelectorAll("h2[id], h3[id]")].filter((h) => links.has(h.id));
  const follow = () => {
    const passed = headings.filter((h) => h.getBoundingClientRect().top < 110);
    for (const a of links.values()) a.classList.remove("here");
    if (passed.length) links.get(passed[passed.length - 1].id).classList.add("here");
  };
  addEventListener("scroll", follow, { passive: true });
  follow();
}

// A table that is wider than the screen says so until its last column has been seen.
const tables = [...document.querySelectorAll(".table")];
function look(table) {
  table.classList.toggle("more", table.scrollLeft + table.clientWidth < table.scrollWidth - 2);
}
for (const table of tables) table.addEventListener("scroll", () => look(table), { passive: true });
addEventListener("resize", () => tables.forEach(look));
tables.forEach(look);

// Search: the index is a script, so that it also loads from a file; it is fetched when it is first needed.
const input = document.getElementById("search");
const results = document.getElementById("results");
let chosen = -1;

function loadIndex() {
  if (window.SEARCH_INDEX || document.getElementById("search-index")) return;
  const script = document.createElement("script");
  script.id = "search-index";
  script.src = root + "search_index.js";
  script.onload = show;
  document.head.append(script);
}

function score(row, terms) {
  const [page, heading, words] = [row[1], row[2], row[3]].map((text) => text.toLowerCase());
  let total = 0;
  for (const term of terms) {
    let found = 0;
    if (heading === term || page === term) found += 60;
    if (heading.includes(term)) found += 20;
    if (page.includes(term)) found += 8;
    const at = words.indexOf(term);
    if (at >= 0) found += 3 + Math.min(4, words.split(term).length - 1) + (/\w/.test(words[at - 1] || " ") ? 0 : 3);
    if (!found) return 0;
    total += found;
  }
  return total;
}

function escapeHtml(text) {
  return text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" }[c]));
}

function excerpt(text, terms) {
  const at = Math.max(0, Math.min(...terms.map((t) => text.toLowerCase().indexOf(t)).filter((i) => i >= 0), text.length));
  const start = at < text.length ? Math.max(0, at - 50) : 0;
  const piece = escapeHtml((start ? "…" : "") + text.slice(start, start + 150));
  const pattern = terms.map((t) => escapeHtml(t).replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|");
  return piece.replace(new RegExp(`(${pattern})`, "gi"), "<mark>$1</mark>");
}

function show() {
  const terms = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  results.hidden = !terms.length;
  chosen = -1;
  if (!terms.length || !window.SEARCH_INDEX) return;
  const hits = window.SEARCH_INDEX.map((row) => [score(row, terms), row]).filter((hit) => hit[0] > 0);
  hits.sort((a, b) => b[0] - a[0]);
  results.innerHTML = hits.slice(0, 12).map(([, [place, page, heading, words]]) =>
    `<li><a href="${root}${place}"><b>${escapeHtml(heading)}</b>${heading.startsWith(page) ? "" : ` · ${escapeHtml(page)}`}`
    + `<small>${excerpt(words, terms)}</small></a></li>`).join("") || '<li class="none">Nothing found</li>';
}

input.addEventListener("focus", loadIndex);
input.addEventListener("input", () => { loadIndex(); show(); });
input.addEventListener("keydown", (event) => {
  const links = [...results.querySelectorAll("a")];
  if (event.key === "Escape") { input.value = ""; show(); input.blur(); }
  if (event.key === "Enter" && links.length) links[Math.max(chosen, 0)].click();
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    chosen = (chosen + (event.key === "ArrowDown" ? 1 : -1) + links.length) % (links.length || 1);
    links.forEach((a, i) => a.classList.toggle("chosen", i === chosen));
    if (links[chosen]) links[chosen].scrollIntoView({ block: "nearest" });
  }
});
results.addEventListener("click", () => { results.hidden = true; });
addEventListener("click", (event) => { if (!event.target.closest(".search")) results.hidden = true; });
addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) {
    event.preventDefault();
    input.focus();
  }
});
