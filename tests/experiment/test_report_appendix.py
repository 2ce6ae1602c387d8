"""What a reviewer asks of tables and figures: numbers, captions that stand alone, how much is behind an interval."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from report_runs import make_runs, registered
from rl_training.experiment.report import contents, datasets, write_report
from rl_training.experiment.report.contents import read_runs
from rl_training.experiment.report.metrics import key, span
from rl_training.experiment.report.tables import interval, scores_table
from rl_training.experiment.statistics import Estimate


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with registered():
        return make_runs(tmp_path_factory.mktemp("appendix"), only_sound=True)


@pytest.fixture(scope="module")
def page(folder: Path) -> str:
    with registered():
        write_report([folder / name for name in ("one", "two", "cloned")], folder / "page.html")
    return (folder / "page.html").read_text()


def test_tables_are_numbered_and_each_has_a_caption(page: str) -> None:
    numbers = [int(found) for found in re.findall(r'<caption><span class="nth">Table (\d+)\.</span> ', page)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) == page.count("<table ") > 4


def test_the_papers_of_the_algorithms_stand_below_the_runs(page: str) -> None:
    told = unescape(page.split('<section id="runs">')[1].split("</section>")[0])
    assert re.search(r'<p class="small">(iql|bc): [^<]*(19|20)\d\d', told)


def test_the_first_screen_is_for_whoever_reads_nothing_else(page: str) -> None:
    """Five plain lines; then scores, one recorded episode, and all that is technical."""
    lead = page.split('<dl class="lead">')[1].split("</dl>")[0]
    assert re.findall("<dt>(.*?)</dt>", lead) == ["Trained", "Data", "Result", "Trust", "Next"]
    text = unescape(re.sub("<[^>]*>", "", lead))
    assert "Learned from recorded data: one (" in text
    assert re.search(r"8 episodes with 64 steps; as recorded, an episode returned \S+ on average \(.*; higher is", text)
    assert "Measured by playing, not estimated" in text
    sections = re.findall(r'<section id="([a-z-]+)">', page)
    assert sections[:4] == ["scores", "episode", "runs", "curves"]


def test_captions_say_how_much_is_behind(page: str) -> None:
    texts = [unescape(re.sub("<[^>]*>", "", found)) for found in re.findall("<figcaption>(.*?)</figcaption>", page)]
    told = "\n".join(texts)
    assert "interquartile mean over 1 to 3 seeds and its 95% interval (none of a single seed)" in told
    assert "Interquartile mean over 3 seeds (line)" in told
    assert "each point is the mean of 2 episodes" in told
    assert re.search(r"Reward of a step: mean .* \(standard deviation of 64 values\)", told)
    assert re.search(r"Q against the return-to-go of the data, \d+ of \d+ values of 3 seeds", told)
    assert "Return of an episode; higher is better; 2 episodes for each seed." in page


def test_the_same_digits_in_all_rows(folder: Path) -> None:
    made = scores_table(read_runs([folder / name for name in ("one", "two", "cloned")]))
    cells = re.findall(r'data-label="(?:last|best)[^"]*"[^>]*><span>(.*?)</span></td>', made)
    decimals = {len(found) for cell in cells for found in re.findall(r"\d\.(\d+)", re.sub(r"\(.*?\)", "", cell))}
    assert len(decimals) == 1
    assert interval(Estimate(3.21), (100.5,)) == "3.2"


def test_no_warning_and_no_legend_twice(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "metric_doubts", lambda run: ("the critic is odd",))
    runs = [folder / "one", folder / "two"]
    write_report(runs, tmp_path / "page.html", with_data=False)
    assert (tmp_path / "page.html").read_text().count("the critic is odd") == 1  # of both runs, at the top
    assert key(read_runs(runs)).count("swatch") == 2
    assert key(read_runs(runs), recorded=True).endswith("<span>recorded</span></span></p>")


def test_losses_of_different_algorithms_are_not_on_one_axis(page: str) -> None:
    """Other metrics are; and what values should come to is a line with its number, where it is known."""
    told = [unescape(re.sub("<[^>]*>", "", found)) for found in re.findall("<figcaption>(.*?)</figcaption>", page)]
    losses = [found[1] for text in told if (found := re.search(r" actor/loss of (\w+): ", text))]
    assert losses == ["iql", "td3_bc", "bc"]
    (values,) = [text for text in told if " critic/q_data: " in text]
    level = re.search(
        r"settle near the discounted returns of the data, .* Dashed: the mean of these, (.*)\. In units of", values
    )
    assert level is not None
    assert f">data: {re.split(r'[ ,]', level[1])[0]}<" in page


def test_nothing_is_said_of_a_line_that_is_not_there(folder: Path, tmp_path: Path) -> None:
    write_report([folder / "one"], tmp_path / "page.html", with_data=False)
    page = (tmp_path / "page.html").read_text()
    assert "of the data&#x27;s actions; should settle, and a straight line" in page
    assert "Dashed: the mean" not in page


def test_what_is_learned_by_heart_stands_at_the_top(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "learned_by_heart", lambda *_: ["learned <by> heart"])
    with registered():
        write_report([folder / "one"], tmp_path / "page.html", held_out=str(folder / "log.npz"))
    first, below = (tmp_path / "page.html").read_text().split("<main>")
    assert "<b>Warning</b>: learned &lt;by&gt; heart." in first
    assert "warning: learned &lt;by&gt; heart." in below.split("What the networks of each run say")[1]


def test_what_is_no_warning_looks_like_none(page: str) -> None:
    told = re.findall(r'<p class="callout small ([^>]*)>(.*?)</p>', page)
    (nature,) = [css for css, text in told if "bc learns no values" in text]
    assert nature.startswith("plain")


def test_counts_in_words() -> None:
    assert (span([3, 3]), span([5, 2, 3]), span([])) == ("3", "2 to 5", "0")
