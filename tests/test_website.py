"""The built site: nothing is loaded from elsewhere, what is broken fails the build, and it works in a browser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rl_training.cli.machine_check import find_chromium
from rl_training.cli.main import app
from rl_training.data import dataset_loaders as datasets
from website import navigation as nav
from website import site as website
from website.command_reference import all_commands, commands_page
from website.reference import configuration_page
from website.rendering import slug


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    website.build(folder)
    return folder


@pytest.fixture
def two_pages(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The smallest site there is."""
    monkeypatch.setattr(nav, "SECTIONS", {"Start": ("index.md", "data.md")})
    return {"index.md": "# One\n\n## First part\n", "data.md": "# Two\n\n[back](index.md#first-part)\n"}


def faults(pages: dict[str, str], folder: Path) -> str:
    with pytest.raises(nav.SiteError) as caught:
        website.build(folder, pages)
    return str(caught.value)


def test_nothing_comes_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        loaded = re.findall(r'<(?:script|img)[^>]* src="([^"]+)"|<link[^>]* href="([^"]+)"', text)
        addresses = [address for pair in loaded for address in pair if address and not address.startswith("data:")]
        assert len(addresses) >= 2
        assert [a for a in addresses if "//" in a or not (page.parent / a).is_file()] == []
    assert "url(" not in (site / "site.css").read_text("utf-8")


def test_every_link_between_pages_holds(site: Path) -> None:
    """The site's own links, not those of its sources: what the reader clicks."""
    texts = {page: page.read_text("utf-8") for page in site.rglob("*.html")}
    for page, text in texts.items():
        for address in re.findall(r'<a[^>]* href="([^":]+)"', text):
            path, _, anchor = address.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.is_file(), (page.name, address)
            assert not anchor or target.suffix != ".html" or f'id="{anchor}"' in texts[target], (page.name, address)


def test_the_pages_are_read_in_order(site: Path, two_pages: dict[str, str], tmp_path: Path) -> None:
    website.build(tmp_path, two_pages)
    first, second = ((tmp_path / name).read_text("utf-8") for name in ("index.html", "data.html"))
    assert 'rel="next" class="next" href="./data.html"' in first
    assert 'rel="prev"' not in first
    assert '<a href="index.html#first-part">back</a>' in second
    assert 'rel="next"' not in second


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[x](nowhere.md)", "data.md: the link 'nowhere.md' leads nowhere"),
        ("[x](index.md#part-two)", "data.md: there is no heading #part-two in index.md"),
        ("[x](#part)", "data.md: there is no heading #part in data.md"),
        ("![x](none.png)", "data.md: the link 'none.png' leads nowhere"),
        ("```\nx\n```", "data.md: a code block's language must be one of"),
        ("```bash sometimes\nx\n```", "data.md: after a code block's language may stand 'not run: why'"),
        ("    indented", "data.md: an indented code block; give it a fence and a language"),
    ],
)
def test_a_broken_page_fails_the_build(text: str, fault: str, two_pages: dict[str, str], tmp_path: Path) -> None:
    assert fault in faults({**two_pages, "data.md": f"# Two\n\n{text}\n"}, tmp_path)


def test_every_page_must_be_in_the_navigation(two_pages: dict[str, str], tmp_path: Path) -> None:
    assert faults({**two_pages, "new.md": "# New\n"}, tmp_path).startswith("new.md: is in no section")
    assert faults({"index.md": "# One\n"}, tmp_path).startswith("data.md: is named in")


def test_a_reason_is_shown(two_pages: dict[str, str], tmp_path: Path) -> None:
    website.build(
        tmp_path, {**two_pages, "index.md": "# One\n\n## First part\n\n```bash not run: needs a GPU\nls\n```\n"}
    )
    assert "Not run by the tests: needs a GPU." in (tmp_path / "index.html").read_text("utf-8")


def test_anchors_are_those_of_github() -> None:
    taken: set[str] = set()
    assert slug("What `dones` mean".replace("`", ""), taken) == "what-dones-mean"
    assert slug("D4RL and d3rlpy (HDF5)", taken) == "d4rl-and-d3rlpy-hdf5"
    assert slug("What dones mean", taken) == "what-dones-mean-1"


def test_the_search_index_is_a_script(site: Path) -> None:
    text = (site / "search_index.js").read_text("utf-8")
    rows = json.loads(text.removeprefix("window.SEARCH_INDEX = ").removesuffix(";\n"))
    assert len(rows) > 200
    assert all((site / row[0].partition("#")[0]).is_file() for row in rows)


def test_configuration_has_the_options_of_datasets() -> None:
    page = configuration_page()
    for model in (datasets.FileDatasetConfig, datasets.MinariDatasetConfig, datasets.MixtureDatasetConfig):
        for name, field in model.model_fields.items():
            assert f"| `{name}` |" in page
            assert (field.description or "?") in page


def test_commands_are_all_there() -> None:
    page = commands_page()
    names = [name for name, _ in all_commands()]
    assert {"train", "data check", "config show"} <= {*names}
    assert len(names) >= len(app.registered_commands)
    assert "| `--episodes` | `10` | Episodes per seed. |" in page
    assert "`--dones-are`" in page


# In a browser ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Any:
    playwright = pytest.importorskip("playwright.sync_api")
    program = find_chromium()
    if program is None:
        pytest.skip("no Chromium on this machine")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_it_works_from_a_file(site: Path, browser: Any, width: int) -> None:
    """Search, copying, light and dark, menu; no page is wider than the screen, nothing is asked of the network."""
    page = browser.new_page(viewport={"width": width, "height": 844}, color_scheme="light")
    asked: list[str] = []
    faults: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: faults.append(str(error)))
    for file in sorted(site.rglob("*.html")):
        page.goto(file.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, file.name
    page.goto((site / "first_steps.html").as_uri())
    page.evaluate("copyText = async (text) => { window.copied = text; }")
    page.locator(".console .copy").first.click(force=True)
    assert page.evaluate("window.copied").startswith("rl-training doctor --quick\nrl-training data collect")
    page.fill("#search", "early stopping patience")
    page.locator("#results a").first.click()
    page.wait_for_url(re.compile(r"(configuration|runs)\.html"))
    page.wait_for_load_state()
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click(".theme-button")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    if width < 800:
        assert not page.is_visible("nav#menu")
        page.click(".menu-button")
    page.click("nav#menu a >> text='The first hour'")
    assert page.url.endswith("first_steps.html")
    assert faults == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 1680])
def test_code_of_120_columns_is_not_cut(site: Path, browser: Any, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 844})
    too_narrow = """() => [...document.querySelectorAll(".code pre")].filter((block) =>
        block.scrollWidth > block.clientWidth && block.textContent.split("\\n").every((line) => line.length <= 120)
    ).map((block) => block.textContent)"""
    for file in sorted(site.rglob("*.html")):
        page.goto(file.as_uri())
        assert page.evaluate(too_narrow) == [], file.name
    page.close()


@pytest.mark.slow
def test_a_wide_table_says_so_until_its_end_was_seen(site: Path, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto((site / "data.html").as_uri())
    table = page.locator(".table").first
    hint = "getComputedStyle(document.querySelector('.table'), '::after').content"
    assert page.evaluate(hint).startswith('"More columns: scroll sideways')
    table.evaluate("table => { table.scrollLeft = table.scrollWidth; }")
    page.wait_for_function(f"{hint} === 'none'")
    page.set_viewport_size({"width": 1280, "height": 844})
    page.wait_for_function(f"{hint} === 'none'")
    page.close()
