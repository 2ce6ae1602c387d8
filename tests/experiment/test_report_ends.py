"""How episodes end, counted: those of the data, with their reasons, and those that policies were scored on."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from report_runs import make_runs, registered
from rl_training import yaml_dialect
from rl_training.data.provenance import KEY, Provenance
from rl_training.experiment import manager
from rl_training.experiment.costs import shown_as
from rl_training.experiment.report import write_report
from rl_training.experiment.report.contents import read_runs
from rl_training.experiment.report.readings import added_at_termination, how_episodes_end, kept_ends
from small_runs import small_config

FACTS = {"episodes": 105, "terminations": 25, "truncations": 80}
REASONS = {"end_reasons": {"shift over": "truncation", "LOSS": "termination", "on it goes": "ongoing"}}


@pytest.mark.parametrize(
    ("section", "facts", "told"),
    [
        (None, FACTS, "25 of 105 end by termination, 80 are cut"),
        (REASONS, FACTS, "25 of 105 end by termination (LOSS), 80 are cut (shift over)"),
        (REASONS, {**FACTS, "terminations": 0}, "0 of 105 end by termination, 80 are cut (shift over)"),
        (
            {"end_reasons": {"a": "termination", "b": "termination"}},
            {**FACTS, "truncations": 0},
            "25 of 105 end by termination (read as such: a or b)",
        ),
        (
            {"end_reasons": {str(n): "termination" for n in range(9)}},
            {**FACTS, "truncations": 0},
            "25 of 105 end by termination (read as such: 0, 1, 2, 3, 4, 5 or 3 more)",
        ),
        ({"end_reasons": 3}, {**FACTS, "truncations": "x"}, "25 of 105 end by termination"),
        (None, {"terminations": 25}, None),
    ],
)
def test_in_words(section: Any, facts: dict[str, Any], told: str | None) -> None:
    assert how_episodes_end(section, facts) == told


def test_only_reasons_that_occurred_are_named() -> None:
    """A reason that is read as an end, and came to none, is neither counted nor said to cost anything."""
    said = {"end_reasons": {"home": "termination", "trip": "termination", "late": "truncation"}}
    said |= {"at_termination": {"trip": -4.0, "home": 1.0}}
    reasons = ("home", "", "late", "home")
    facts = {"episodes": 4, "terminations": 3, "truncations": 1}
    facts[KEY] = Provenance("log.csv", options=said, reasons=reasons).to_json()
    ends = kept_ends(None, facts)
    assert how_episodes_end(None, facts, ends) == "3 of 4 end by termination (2 home), 1 are cut (1 late)"
    assert added_at_termination(None, facts, ends) == "1 for home"
    assert added_at_termination(None, facts) == "-4 for trip and 1 for home"
    assert kept_ends(None, {**facts, "episodes": 5}) == ()


def test_reasons_of_the_file_that_these_were_made_from() -> None:
    facts = {**FACTS, KEY: Provenance.of("log.csv", REASONS, None).to_json()}
    told = how_episodes_end({"source": "file", "end_reasons": None}, facts)
    assert told == "25 of 105 end by termination (LOSS), 80 are cut (shift over)"


@pytest.mark.parametrize(("options", "source"), [({}, "log.csv"), (REASONS, "-c LOG.yaml")])
def test_the_split_can_be_made_again(data_file: Path, tmp_path: Path, options: dict[str, Any], source: str) -> None:
    run = manager.start(small_config(data_file, tmp_path / "runs")).run.path
    facts = json.loads((run / "run.json").read_text())
    part = "all but 0.25 of the episodes, drawn with seed 3"
    made = Provenance("log.csv", options=options, part=part, others="aside.csv")
    (run / "run.json").write_text(json.dumps({**facts, "dataset": {**facts["dataset"], KEY: made.to_json()}}))
    policies = [{"seed": 0, "value": None, "improvement": None, "not_trusted_because": ["look ahead; smaller --gamma"]}]
    estimate = {"step": 20, "gamma": 0.9, "policies": policies, "cautions": []}
    estimate |= {"data": {"title": "aside.csv", "episodes": 9, "share_trained_on": 0.0}}
    (run / "offline_evaluations.jsonl").write_text(json.dumps(estimate) + "\n")
    write_report([run], tmp_path / "page.html", with_data=False)
    told = f"rl-training data split {source} -o {data_file.name} aside.csv --held-out 0.25 --seed 3"
    page = (tmp_path / "page.html").read_text()
    assert told in " ".join(re.sub("<[^>]*>", "", page).split())
    stands = ' (LOG.yaml: save it from <a href="#reproduce">How to reproduce</a>)' if options else ""
    assert f"Set more episodes aside{stands}, and train anew on the others: <code" in page
    assert '<section id="reproduce">' in page
    assert "✗ not trusted" in page
    logs = re.findall("<summary>LOG.yaml</summary><pre><code>(.*?)</code>", page, flags=re.DOTALL)
    read = [yaml_dialect.read(unescape(text)) for text in logs]
    assert read == ([{"algo": "bc", "dataset": {"source": "file", "path": "log.csv", **options}}] if options else [])


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"LOSS": 500.0, "<b>": 2.5}, "500 for LOSS and 2.5 for <b>"),
        (-100, "-100 for every termination"),
        (None, None),
        ("much", None),
        ({"LOSS": "x"}, None),
    ],
)
def test_what_a_termination_adds(said: Any, told: str | None) -> None:
    assert added_at_termination({"at_termination": said}, {}) == told
    facts = {KEY: Provenance.of("log.csv", {"at_termination": said}, None).to_json()}
    assert added_at_termination({"at_termination": None}, facts) == told


@pytest.mark.parametrize(
    ("stages", "told"),
    [
        ([{"rewards_are": "costs", "at_termination": 500}], "500"),  # of a file with costs: as it says them
        ([{"rewards_are": "costs"}, {"at_termination": -500}], "500"),  # of the rewards they became
        ([{"rewards_are": "costs", "at_termination": 500}, {}], "500"),
        ([{}, {"at_termination": -500}], "-500"),
    ],
)
def test_what_it_adds_has_the_sign_of_the_page(stages: list[dict[str, Any]], told: str) -> None:
    """stages: from the first file to the run's own section."""
    *made, section = stages
    before = None
    for options in made:
        before = Provenance.of("log.csv", options, before)
    facts = {} if before is None else {KEY: before.to_json()}
    assert added_at_termination(section, facts) == f"{told} for every termination"
    assert shown_as(section, facts).costs == (told == "500")


def test_of_data_and_of_evaluations(tmp_path: Path) -> None:
    with registered():
        folder = make_runs(tmp_path, only_sound=True)
        write_report([folder / "one"], tmp_path / "page.html", with_data=False)
    page = (tmp_path / "page.html").read_text()
    assert "<dt>ends of episodes</dt><dd>8 of 8 end by termination</dd>" in page
    file = folder / "one" / "evaluations.jsonl"
    records = [json.loads(line) for line in file.read_text().splitlines()]
    assert all(0 <= count <= 2 for record in records for count in record["terminations"])
    (run,) = read_runs([folder / "one"])
    assert run.terminated == (sum(records[-1]["terminations"]), 6)
    assert f"<span>{run.terminated[0]} of 6</span>" in page
    for record in records:
        del record["terminations"]
    file.write_text("".join(json.dumps(record) + "\n" for record in records))  # as earlier versions wrote it
    write_report([folder / "one"], tmp_path / "page.html", with_data=False, force=True)
    assert "terminated" not in (tmp_path / "page.html").read_text()


def test_the_page_counts_reasons_and_says_what_costs_are(tmp_path: Path) -> None:
    draw, lines = np.random.default_rng(0), ["flight,x,u,fuel [kg],why"]
    for flight in range(8):
        why = ["landed", "<b>crash", "landed", "night"][flight % 4]
        for step in range(5):
            x, u = draw.normal(size=2)
            lines.append(f"{flight},{x:.3f},{u:.3f},{1 + flight % 4},{why if step == 4 else ''}")
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    columns = {"obs": ["x"], "actions": ["u"], "rewards": "fuel [kg]", "episode_ids": "flight", "end_reasons": "why"}
    meanings = {"landed": "termination", "<b>crash": "termination", "night": "truncation"}
    section = {"source": "file", "path": str(tmp_path / "log.csv"), "columns": columns, "end_reasons": meanings}
    section |= {"rewards_are": "costs", "at_termination": {"<b>crash": 100.0}}
    run = manager.start(small_config(None, tmp_path, dataset=section, total_timesteps=2)).run
    write_report([run.path], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    table = page.split("Why the recorded episodes ended, and what they came to.")[1].split("</table>")[0]
    rows = [re.findall(r"<span>(.*?)</span>", row) for row in table.split("<tr>")[2:]]
    assert rows == [
        ["landed", "termination", "4 (50%)", "10", "5.0"],
        ["&lt;b&gt;crash", "termination", "2 (25%)", "110", "5.0"],
        ["night", "cut", "2 (25%)", "20", "5.0"],
    ]
    assert ">mean cost, kg and at_termination<" in table
    assert "as recorded, an episode cost 37.5 (kg and at_termination) on average" in page
    assert "; at_termination adds 100 for &lt;b&gt;crash." in page
    assert "6 of 8 end by termination (4 landed, 2 &lt;b&gt;crash), 2 are cut (2 night)" in page


def test_the_page_says_what_returns_of_a_sum_are(tmp_path: Path) -> None:
    draw, lines = np.random.default_rng(0), ["run,x,u,sales_EUR,wages_EUR,why"]
    for row in range(40):
        x, u = draw.normal(size=2)
        lines.append(f"{row // 5},{x:.3f},{u:.3f},3,1,{'crash' if row % 5 == 4 else ''}")
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    columns = {"obs": "x", "actions": "u", "episode_ids": "run", "end_reasons": "why"}
    columns |= {"rewards": ["sales_EUR", "-wages_EUR"]}  # type: ignore[dict-item]
    section = {"source": "file", "path": str(tmp_path / "log.csv"), "columns": columns}
    section |= {"end_reasons": {"crash": "termination"}, "at_termination": {"crash": -100.0}}
    run = manager.start(small_config(None, tmp_path, dataset=section, total_timesteps=2)).run
    write_report([run.path], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "an episode returned -90 on average" in page
    assert "‘sales_EUR - wages_EUR’, summed over each episode, plus -100 for crash." in page


@pytest.mark.parametrize("said", [None, 0.0, {}])
def test_nothing_is_said_of_what_was_not_added(said: Any) -> None:
    section = {"rewards_are": "costs", "columns": {"rewards": "eur"}}
    assert shown_as({**section, "at_termination": said}, {}).behind == " eur"
    assert shown_as({**section, "at_termination": 5.0}, {}).behind == " (eur and at_termination)"
