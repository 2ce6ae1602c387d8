"""What the doctor's report looks like: text, page, JSON."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.data.doctor import Distribution, Facts, Finding, Place, Report
from rl_training.data.doctor.page import report_page
from rl_training.data.doctor.text import bin_names, report_lines
from rl_training.data.doctor.wording import columns_in_words, listed, number, share
from rl_training.wording import amount
from sick_data import ends_of, healthy, report_on

DISTRIBUTION = [field.name for field in fields(Distribution)]


def sick() -> Report:
    arrays = healthy()
    arrays["rewards"][40] = np.nan
    arrays["obs"][:, 2] = arrays["next_obs"][:, 2] = 1.0
    return report_on(arrays)


class TestText:
    def test_the_whole(self) -> None:
        lines = [line.text for line in report_lines(sick(), "data.npz", width=80)]
        assert lines[0] == "data.npz"
        assert "Errors (1)" in lines
        assert "Notes (1)" in lines
        assert lines.index("Errors (1)") < lines.index("Notes (1)")
        assert lines[-1] == "verdict: not fit for training: 1 error, 1 note"
        text = " ".join(" ".join(lines).split())
        assert "• rewards [values.nan]: 1 value is NaN, in 1 row of 1 episode. At row 40 (episode 0, step 40)." in text

    @pytest.mark.parametrize(
        ("ids", "told"),
        [
            (np.array([f"r{k:03d}" for k in range(24)]), "(episode named r002, step 3)"),
            (np.arange(24) * 10 + 100, "(episode named 120, step 3)"),
            (np.arange(24), "(episode 2, step 3)"),
        ],
    )
    def test_an_episode_has_the_name_the_file_gives_it(self, ids: Any, told: str) -> None:
        arrays = healthy()
        ends = ends_of(arrays)
        arrays["episode_ids"] = np.repeat(ids, np.diff(np.r_[-1, ends]))
        arrays["rewards"][ends[1] + 4] = np.nan
        (finding,) = report_on(arrays).at("error")
        assert str(finding.place) == f"row {ends[1] + 4} {told}"

    @pytest.mark.parametrize("width", [40, 60, 80, 100])
    def test_fits_the_terminal(self, width: int) -> None:
        assert max(len(line.text) for line in report_lines(sick(), "data.npz", width)) <= width

    def test_bars_are_as_long_as_the_counts(self) -> None:
        facts = Facts("test", 100, {}, returns=Distribution.of(np.array([0.0] * 30 + [100.0] * 15)))
        lines = [line.text for line in report_lines(Report(facts), "x", 60, bar="#")]
        bars = [line.count("#") for line in lines if "#" in line]
        assert len(bars) == 2
        assert bars[0] == pytest.approx(2 * bars[1], abs=1)

    def test_of_nothing(self) -> None:
        lines = [line.text for line in report_lines(report_on({}), "x", 80)]
        assert lines[-1] == "verdict: not fit for training: 4 errors"


class TestVerdict:
    def verdict(self, *levels: Any) -> str:
        return Report.of(Facts("test", 1, {}), [Finding(level, "a.b", "obs", "", "") for level in levels]).verdict()

    def test_says_the_gravest(self) -> None:
        assert self.verdict() == "healthy: no findings"
        assert self.verdict("note", "note") == "healthy: 2 notes"
        assert self.verdict("note", "warning") == "fit for training, but look at the warnings: 1 warning, 1 note"
        assert self.verdict("warning", "error") == "not fit for training: 1 error, 1 warning"


class Page(HTMLParser):
    """Tags, and whether every one is closed; what would be loaded from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.loaded: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loaded += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag not in ("meta", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


class TestPage:
    def test_stands_alone(self) -> None:
        text = report_page(sick(), "data.npz")
        page = Page(text)
        assert page.open == []
        assert page.loaded == []
        assert "script" not in page.tags
        assert page.tags.count("svg") == 1  # rewards with a NaN have no returns to draw
        assert "url(" not in text
        assert "@import" not in text
        assert "prefers-color-scheme: dark" in text
        assert 'name="viewport"' in text
        assert "row 40 (episode 0, step 40)" in page.text

    def test_strings_of_the_data_are_escaped(self) -> None:
        bad = "<script>alert(1)</script>"
        finding = Finding("error", bad, bad, bad, bad, place=Place(row=1))
        report = Report(Facts(bad, 1, {bad: bad}, env_id=bad), (finding,))
        page = report_page(report, bad)
        assert "<script" not in page
        assert Page(page).text.count(bad) == 10


class TestJson:
    def test_is_complete(self) -> None:
        report = sick()
        plain = json.loads(json.dumps(report.to_json(), allow_nan=False))
        assert plain["ok"] is False
        assert plain["facts"]["rows"] == report.facts.rows
        assert plain["findings"][0] == {
            "level": "error",
            "code": "values.nan",
            "field": "rewards",
            "what": "1 value is NaN, in 1 row of 1 episode.",
            "advice": report.findings[0].advice,
            "count": 1,
            "row": 40,
            "episode": 0,
            "step": 40,
            "episode_id": None,
            "column": None,
            "column_name": None,
            "file": None,
        }

    def test_has_no_numbers_that_json_lacks(self) -> None:
        facts = Facts("test", 1, {}, rewards=(float("-inf"), float("nan"), 1.0))
        assert Report(facts).to_json()["facts"]["rewards"] == [None, None, 1.0]


class TestDistribution:
    def test_whole_numbers(self) -> None:
        values = Distribution.of(np.array([3, 3, 5, 9]))
        assert bin_names(values) == ["3", "4", "5", "6", "7", "8", "9"]
        assert values.counts == (2, 0, 1, 0, 0, 0, 1)

    def test_wide_whole_numbers(self) -> None:
        values = Distribution.of(np.arange(100, 1000))
        assert sum(values.counts) == 900
        assert bin_names(values)[0] == "100 – 189"
        assert bin_names(values)[-1] == "910 – 999"

    def test_all_equal(self) -> None:
        assert Distribution.of(np.full(4, 2.5)).counts == (4,)
        assert Distribution.of(np.full(4, 7)).counts == (4,)


class TestWords:
    @pytest.mark.parametrize(
        ("value", "text"),
        [(12135.0, "12,135"), (1251.48, "1,251.5"), (1.25, "1.25"), (0.00413, "0.00413"), (3.2e8, "3.2e+08")],
    )
    def test_numbers(self, value: float, text: str) -> None:
        assert number(value) == text

    @pytest.mark.parametrize(
        ("value", "text"),
        [(0.11, "11%"), (0.042, "4.2%"), (0.003, "0.3%"), (1e-6, "below 0.01%"), (0.996, "99.6%"), (0.9999, "99.99%")],
    )
    def test_shares(self, value: float, text: str) -> None:
        assert share(value) == text

    def test_lists(self) -> None:
        assert listed(["a", "b", "c"]) == "a, b and c"
        assert (amount(1, "row"), amount(2000, "row")) == ("1 row", "2,000 rows")
        assert (amount(1, "entry"), amount(0, "entry"), amount(2, "day")) == ("1 entry", "0 entries", "2 days")
        assert columns_in_words([4]) == "column 4"
        assert columns_in_words([27, 28, 29, 30]) == "columns 27 to 30"
        assert columns_in_words(list(range(0, 30, 2))) == "columns 0, 2, 4, 6, 8, 10, 12, 14 and 7 more"


def test_every_key_of_the_json_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "data" / "checking.md").read_text(encoding="utf-8")
    section = text.split("## The report as JSON")[1]
    documented = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (.*?) \|", section, re.MULTILINE))))
    report = sick().to_json()
    assert documented == {"path", "error", *report, *report["facts"], *report["findings"][0], *DISTRIBUTION}
