"""The report in a real browser: nothing is fetched, nothing fails, boxes hide, heads sort, it fits every screen."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from report_runs import make_runs, registered
from rl_training.cli.machine_check import find_chromium
from rl_training.experiment.report import write_report

playwright_api = pytest.importorskip(
    "playwright.sync_api", reason="needs playwright: pip install 'rl-training[browser]'"
)
CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium (Debian: apt install chromium)")

LAPTOP, PHONE = (1280, 800), (390, 844)
SCREENS = [(size, scheme) for size in (LAPTOP, PHONE) for scheme in ("light", "dark")]
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright_api.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page on three runs, one of which has a hostile name."""
    with registered():
        folder = make_runs(tmp_path_factory.mktemp("browser"), only_sound=True)
        (folder / "cloned").rename(folder / HOSTILE)
        output = folder / "report.html"
        write_report([folder / "one", folder / "two", folder / HOSTILE], output, held_out=str(folder / "log.npz"))
    return output


class Watched:
    """A page that writes down whatever a page should not do."""

    def __init__(self, browser: Any, report: Path, size: tuple[int, int] = LAPTOP, **options: Any) -> None:
        self.page = browser.new_page(viewport={"width": size[0], "height": size[1]}, **options)
        self.faults: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.faults.append(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: (self.faults.append("dialog"), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(report.as_uri())

    def unfold(self) -> None:
        self.page.eval_on_selector_all("details", "all => all.forEach(e => { e.open = true; })")

    def shown(self, selector: str) -> int:
        """How many of the elements can be seen."""
        seen = "all => all.filter(e => e.getClientRects().length > 0 && e.checkVisibility()).length"  # not folded
        return int(self.page.eval_on_selector_all(selector, seen))


@pytest.fixture
def watched(browser: Any, report: Path) -> Iterator[Any]:
    """`watched(…)` opens the report; at the end nothing may have gone wrong and nothing been fetched."""
    opened: list[Watched] = []

    def open_report(size: tuple[int, int] = LAPTOP, **options: Any) -> Watched:
        opened.append(Watched(browser, report, size, **options))
        return opened[-1]

    yield open_report
    for one in opened:
        assert one.faults == []
        assert one.requests == [report.as_uri()]
        one.page.close()


@pytest.mark.parametrize(("size", "scheme"), SCREENS)
def test_fits_the_screen(watched: Any, size: tuple[int, int], scheme: str, tmp_path: Path) -> None:
    one = watched(size, color_scheme=scheme)
    assert one.page.evaluate("document.documentElement.scrollWidth") <= size[0]
    back = one.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert back == {"light": "rgb(255, 255, 255)", "dark": "rgb(21, 23, 26)"}[scheme]
    assert (one.shown(".wide svg"), one.shown(".narrow svg")) == ((1, 0) if size == LAPTOP else (0, 1))
    whole = "REPORT_SHOTS" in os.environ  # a folder, for somebody who wants to look
    shots = Path(os.environ.get("REPORT_SHOTS", tmp_path))
    picture = one.page.screenshot(path=shots / f"report-{size[0]}-{scheme}.png", full_page=whole)
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 10_000


@pytest.mark.parametrize("size", [LAPTOP, PHONE])
def test_texts_of_a_figure_do_not_overlap(watched: Any, size: tuple[int, int]) -> None:
    one = watched(size)
    one.unfold()
    assert one.shown("figure svg[role=img] text") > 100
    clashes = one.page.evaluate(
        """() => {
          const found = [];
          for (const figure of document.querySelectorAll("figure svg[role=img]")) {
            const boxes = [...figure.querySelectorAll("text")].map(t => [t.textContent, t.getBoundingClientRect()])
              .filter(([, box]) => box.width > 0);
            for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
              const [a, b] = [boxes[i][1], boxes[j][1]];
              const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
              const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
              if (wide > 1 && high > 3) found.push([figure.getAttribute("aria-label"), boxes[i][0], boxes[j][0]]);
            }
          }
          return found;
        }"""
    )
    assert clashes == []


@pytest.mark.parametrize("size", [LAPTOP, PHONE])
def test_captions_stand_below_and_no_figure_beside_nothing(watched: Any, size: tuple[int, int]) -> None:
    one = watched(size)
    one.unfold()
    places = one.page.eval_on_selector_all(
        "figure",
        """all => all.map(figure => {
          const picture = [...figure.querySelectorAll("svg[role=img]")].find(e => e.getClientRects().length);
          const [box, whole] = [picture.getBoundingClientRect(), figure.parentElement.getBoundingClientRect()];
          return [figure.querySelector("figcaption").getBoundingClientRect().top - box.bottom, box.top, box.width,
            whole.width, figure.parentElement.className === "grid-of",
            figure === figure.parentElement.lastElementChild];
        })""",
    )
    assert len(places) > 10
    assert min(below for below, *_ in places) >= 0
    rows: dict[float, float] = {}
    ends: set[float] = set()  # rows that may be half empty: the last of an odd number, or beside a stack
    for _, top, width, whole, in_grid, is_last in places:
        if in_grid:
            rows[round(top)] = rows.get(round(top), 0.0) + width / whole
            ends |= {round(top)} if is_last else set()
    assert len(ends) < len(rows)
    assert all(taken > 0.9 for top, taken in rows.items() if top not in ends)


def test_empty_cells_of_a_card_are_left_out(watched: Any) -> None:
    absent = "#diagnostics td.absent"
    assert watched(LAPTOP).shown(absent) > 0
    assert watched(PHONE).shown(absent) == 0


@pytest.mark.parametrize("width", [390, 840, 1000])
def test_tables_of_scores_need_no_scrolling(watched: Any, width: int) -> None:
    one = watched((width, 800))
    overhang = "all => Math.max(...all.map(e => e.scrollWidth - e.clientWidth))"
    assert one.page.eval_on_selector_all("#runs .table, #scores > .table", overhang) <= 0


@pytest.mark.parametrize("width", [390, 500, 640])
def test_options_do_not_break(watched: Any, width: int) -> None:
    one = watched((width, 800))
    assert one.page.locator(".piece").count() > 0
    assert one.page.eval_on_selector_all(".piece", "all => Math.max(...all.map(e => e.getClientRects().length))") == 1
    assert one.page.evaluate("document.documentElement.scrollWidth") <= width


def test_figures_are_numbered_in_the_order_they_stand(watched: Any) -> None:
    one = watched()
    told = "all => all.map(e => [e.textContent.match(/^Figure ([\\d.]+)\\. /)[1], e.closest('details') !== null])"
    found = one.page.eval_on_selector_all("figcaption", told)
    expected, shown, folded = [], 0, 0
    for _, can_be_folded in found:  # those number below the figure before them
        shown, folded = (shown, folded + 1) if can_be_folded else (shown + 1, 0)
        expected.append(f"{shown}.{folded}" if folded else str(shown))
    assert [number for number, _ in found] == expected
    assert expected[0] == "1"
    assert max(map(float, expected)) > 5


@pytest.mark.parametrize(("size", "side"), [(LAPTOP, "right"), (PHONE, "left")])
def test_numbers_stand_below_one_another(watched: Any, size: tuple[int, int], side: str) -> None:
    one = watched(size)
    sides = "(cells, side) => new Set(cells.map(e => Math.round(e.firstChild.getBoundingClientRect()[side]))).size"
    cells = "table.scores tbody td:nth-child(4)"
    assert one.shown(cells) > 1
    assert one.page.eval_on_selector_all(cells, sides, side) == 1


def test_a_box_hides_its_run_everywhere(watched: Any) -> None:
    one = watched()
    before = one.shown("[data-run='1']")
    assert before > 5
    one.page.uncheck("input[data-toggle-run='1']")
    assert one.shown("[data-run='1']") == 0
    assert one.shown("[data-run='0']") > 5
    one.page.check("input[data-toggle-run='1']")
    assert one.shown("[data-run='1']") == before


def test_single_seeds(watched: Any) -> None:
    one = watched()
    assert one.shown("g.seed") == 0
    one.page.check("input[data-show-seeds]")
    assert one.shown("g.seed[data-seed='1']") == 2  # of two runs of three seeds
    one.page.click("summary:text('Every seed')")
    rows = one.shown("table.seeds tbody tr")
    one.page.uncheck("input[data-toggle-seed='1']")
    assert one.shown("g.seed[data-seed='1']") == 0
    assert one.shown("g.seed[data-seed='2']") == 2
    assert one.shown("table.seeds tbody tr") == rows - 2


def test_heads_sort(watched: Any) -> None:
    one = watched()
    column = "table.scores tbody td:nth-child(3)"
    head = one.page.locator("table.scores thead th:nth-child(3)")

    def values() -> list[float]:
        return [float(cell.get_attribute("data-order")) for cell in one.page.query_selector_all(column)]

    head.locator("button").click()
    assert values() == sorted(values(), reverse=True)
    assert head.get_attribute("aria-sort") == "descending"
    head.locator("button").click()
    assert values() == sorted(values())
    assert head.get_attribute("aria-sort") == "ascending"
    one.page.focus("table.scores thead th:nth-child(1) button")
    one.page.keyboard.press("Enter")
    names = [cell.inner_text() for cell in one.page.query_selector_all("table.scores tbody th")]
    assert names == sorted(names, key=str.lower)
    assert head.get_attribute("aria-sort") is None


def test_settings_are_filtered(watched: Any) -> None:
    one = watched()
    seen = "all => all.filter(e => e.checkVisibility()).map(e => e.firstElementChild.innerText)"
    rows = one.page.eval_on_selector_all("#settings-table tbody tr", seen)
    assert rows == ["algo", "algo_kwargs.deterministic_policy"]  # what may change the learning; the others are folded
    one.page.fill("input[data-filter]", "expectile")
    assert one.shown("#settings-table tbody tr") == 1
    assert one.page.inner_text("#settings-table-count") == "1 shown"
    one.page.fill("input[data-filter]", "")
    every = one.page.locator("#settings-table tbody tr").count()
    assert every > 20
    assert one.shown("#settings-table tbody tr") == every  # the others have been opened to look through


def test_a_hostile_name_is_shown_and_does_nothing(watched: Any) -> None:
    one = watched()
    assert one.page.locator("img").count() == 0
    assert HOSTILE in one.page.inner_text("#runs")


def test_without_script(browser: Any, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.locator("section").count() == 8
    assert page.locator(".controls input").first.is_hidden()  # boxes that would do nothing
    assert page.locator(".wide svg").first.is_visible()
    assert page.locator("table.scores tbody tr").count() == 3
    assert page.locator("#reproduce pre").first.is_visible()
    page.click("summary:text('Every seed')")
    assert page.locator("table.seeds tbody tr").first.is_visible()
    context.close()


def test_on_paper(watched: Any) -> None:
    one = watched(color_scheme="dark")
    one.page.emulate_media(media="print", color_scheme="dark")
    assert one.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert one.shown("nav") == 0
    one.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert one.shown("details:not([open])") == 0
    one.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert one.shown("details[open]:not(.fold)") == 0
    assert one.shown("details.fold:not([open])") == 0


def test_secondary_parts_are_folded_on_a_phone_alone(watched: Any) -> None:
    wide, narrow = watched(LAPTOP), watched(PHONE)
    assert wide.shown("details.fold[open]") == wide.shown("details.fold") == 3
    assert narrow.shown("details.fold[open]") == 0
    height = "document.documentElement.scrollHeight"
    before = narrow.page.evaluate(height)
    narrow.page.emulate_media(media="print")
    narrow.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert narrow.shown("details:not([open])") == 0
    narrow.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    narrow.page.emulate_media(media="screen")
    assert narrow.page.evaluate(height) == before
    assert narrow.shown("nav a") == narrow.shown("section") > 5
    narrow.page.click("nav a[href='#reproduce']")
    assert narrow.shown("#reproduce pre") > 0
