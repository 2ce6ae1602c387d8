"""The little script of the page: hide runs and seeds, sort tables, filter settings,
fold on narrow screens. Without it everything is shown."""

from __future__ import annotations

SCRIPT = """
(function () {
  "use strict";
  var root = document.documentElement;
  root.classList.add("js");
  function all(selector, within) {
    return Array.prototype.slice.call((within || document).querySelectorAll(selector));
  }
  function on(selector, event, action) {
    all(selector).forEach(function (element) {
      element.addEventListener(event, function (happened) { action(element, happened); });
    });
  }
  on("input[data-toggle-run]", "change", function (box) {
    var run = box.getAttribute("data-toggle-run");
    all("input[data-toggle-run=\\"" + run + "\\"]").forEach(function (other) { other.checked = box.checked; });
    all("[data-run=\\"" + run + "\\"]").forEach(function (part) { part.classList.toggle("off", !box.checked); });
  });
  on("input[data-show-seeds]", "change", function (box) {
    root.classList.toggle("seeds-shown", box.checked);
    all("input[data-toggle-seed]").forEach(function (other) { other.disabled = !box.checked; });
  });
  on("input[data-toggle-seed]", "change", function (box) {
    var seed = box.getAttribute("data-toggle-seed");
    all("g[data-seed=\\"" + seed + "\\"]").forEach(function (part) { part.classList.toggle("off", !box.checked); });
    all("td[data-of-seed=\\"" + seed + "\\"]").forEach(function (cell) {
      cell.parentNode.classList.toggle("off-seed", !box.checked);
    });
  });
  on("input[data-filter]", "input", function (field) {
    var wanted = field.value.trim().toLowerCase(), shown = 0;
    var place = document.getElementById(field.getAttribute("data-filter"));
    if (wanted) { all("details", place).forEach(function (part) { part.open = true; }); }
    all("tbody tr", place).forEach(function (row) {
      var fits = row.textContent.toLowerCase().indexOf(wanted) >= 0;
      row.hidden = !fits;
      shown += fits ? 1 : 0;
    });
    var told = document.getElementById(field.getAttribute("data-filter") + "-count");
    if (told) { told.textContent = shown + " shown"; }
  });
  function key(row, column) {
    var cell = row.cells[column], order = cell.getAttribute("data-order");
    return order === null ? cell.textContent.trim().toLowerCase() : parseFloat(order);
  }
  function compare(a, b) {
    if (typeof a === typeof b) { return a < b ? -1 : a > b ? 1 : 0; }
    return typeof a === "number" ? -1 : 1;
  }
  all("th.sort").forEach(function (head) {
    var button = document.createElement("button");
    button.type = "button";
    while (head.firstChild) { button.appendChild(head.firstChild); }
    head.appendChild(button);
    button.addEventListener("click", function () {
      var table = head.closest("table"), body = table.tBodies[0], column = head.cellIndex;
      var first = head.hasAttribute("data-numbers") ? "descending" : "ascending";
      var now = head.getAttribute("aria-sort");
      var next = now === null ? first : now === "ascending" ? "descending" : "ascending";
      all("th", table.tHead).forEach(function (other) { other.removeAttribute("aria-sort"); });
      head.setAttribute("aria-sort", next);
      var sign = next === "ascending" ? 1 : -1;
      all("tr", body).map(function (row, place) { return [key(row, column), place, row]; })
        .sort(function (a, b) { return sign * compare(a[0], b[0]) || a[1] - b[1]; })
        .forEach(function (entry) { body.appendChild(entry[2]); });
    });
  });
  function unfold(place) {
    if (place) { all("details.fold", place).slice(0, 1).forEach(function (part) { part.open = true; }); }
  }
  if (window.matchMedia("(max-width: 46rem)").matches) {
    all("details.fold").forEach(function (part) { part.open = false; });
    unfold(location.hash.length > 1 ? document.getElementById(location.hash.slice(1)) : null);
  }
  on("nav a", "click", function (link) { unfold(document.getElementById(link.getAttribute("href").slice(1))); });
  var closed = [];
  window.addEventListener("beforeprint", function () {
    closed = all("details:not([open])");
    closed.forEach(function (part) { part.open = true; });
  });
  window.addEventListener("afterprint", function () { closed.forEach(function (part) { part.open = false; }); });
})();
"""
