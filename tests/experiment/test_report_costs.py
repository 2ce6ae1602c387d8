"""Where the user's rewards are costs, the report shows costs: in the lead, in tables and in figures."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training import yaml_dialect
from rl_training.data import TransitionDataset
from rl_training.data.provenance import KEY, Provenance
from rl_training.experiment import manager
from rl_training.experiment.costs import RETURNS, Shown, added_up, common, shown_as
from rl_training.experiment.report import write_report
from rl_training.experiment.report.contents import read_runs
from rl_training.experiment.report.tables import last_estimate
from rl_training.experiment.statistics import Estimate
from small_runs import small_config

COSTS = {"source": "file", "rewards_are": "costs", "columns": {"rewards": "eur"}}


class TestHowReturnsAreShown:
    def test_of_costs_with_the_other_sign_and_ends(self) -> None:
        found = Shown(True, "eur").estimate(Estimate(-5.0, -7.0, -2.0))
        assert (found.value, found.low, found.high) == (5.0, 2.0, 7.0)
        assert RETURNS.estimate(found) is found
        assert str(Shown(True).number(0.0)) == "0.0"  # no -0
        assert Shown(True, "eur").ends(-3.0, -1.0) == (1.0, 3.0)

    def test_words(self) -> None:
        eur = Shown(True, "eur")
        assert (eur.axis, eur.title("a step")) == ("cost, eur (lower is better)", "Cost of a step, eur")
        assert (RETURNS.axis, RETURNS.title("a step")) == ("return (higher is better)", "Reward of a step")
        assert RETURNS.title("an episode") == "Return of an episode"

    def test_by_the_section_or_by_what_the_file_tells(self) -> None:
        told = {KEY: Provenance.of("log.csv", COSTS, None).to_json()}
        assert shown_as(COSTS, {}) == shown_as({"source": "file", "rewards_are": "rewards"}, told) == Shown(True, "eur")
        assert shown_as(None, {}) == shown_as({"rewards_are": "rewards"}, {}) == RETURNS
        assert shown_as(COSTS, told) == RETURNS  # negated twice
        mixture = {"source": "mixture", "parts": [{"dataset": COSTS}]}
        assert shown_as(mixture, {}) == Shown(True, "eur")

    @pytest.mark.parametrize("name", ["cost", "Costs", "price (€/h)", "Total $/h", "", None, 3, [3], ["a", "b"]])
    def test_a_name_that_is_no_unit(self, name: Any) -> None:
        assert shown_as({"rewards_are": "costs", "columns": {"rewards": name}}, {}) == Shown(True)

    @pytest.mark.parametrize(
        ("name", "unit"),
        [
            ("cost of interval EUR", "EUR"),
            ("cost_EUR", "EUR"),
            ("energy [kWh]", "kWh"),
            ("eur", "eur"),
            ("kWh", "kWh"),
        ],
    )
    def test_the_unit_at_the_end_of_a_name(self, name: str, unit: str) -> None:
        assert shown_as({"rewards_are": "costs", "columns": {"rewards": name}}, {}) == Shown(True, unit)

    @pytest.mark.parametrize("name", ["Kosten", "energy", "total price", "Kosten_gesamt"])
    def test_a_name_is_no_unit(self, name: str) -> None:
        """Nobody knows whether it is counted in money: a line of units may say that it is a rate."""
        found = shown_as({"rewards_are": "costs", "columns": {"rewards": name}}, {})
        assert (found.named, found.behind) == (f"cost ({name})", "")
        assert found.axis == f"cost ({name}) (lower is better)"
        assert found.title("an episode") == f"Cost of an episode ({name})"

    def test_of_several_runs(self) -> None:
        assert common([Shown(True, "eur"), Shown(True, "eur")]) == Shown(True, "eur")
        assert common([Shown(True, "eur"), Shown(True, "kWh")]) == Shown(True)
        assert common([Shown(True, "eur"), RETURNS]) == common([]) == RETURNS


def text_of(page: Path) -> str:
    body = re.sub(r"<(style|script)>.*?</\1>", "", page.read_text(), flags=re.DOTALL)
    return " ".join(unescape(re.sub("<[^>]*>", " ", body)).split())


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Trained on eight episodes whose steps cost 1 to 8, and evaluated in an environment: by a record of two seeds."""
    rows = np.repeat(np.arange(8), 4)
    lines = [f"{np.sin(row):.3f},{np.cos(row):.3f},{cost + 1},{row % 4}" for row, cost in enumerate(rows)]
    (tmp_path / "log.csv").write_text("\n".join(["x,u,eur,t", *lines]) + "\n")
    columns = {"obs": "x", "actions": "u", "rewards": "eur", "step": "t"}
    section = {"source": "file", "path": str(tmp_path / "log.csv"), "columns": columns, "rewards_are": "costs"}
    made = manager.start(small_config(None, tmp_path, "iql", seed=[0, 1], dataset=section, total_timesteps=4)).run
    return made.path


def test_data_are_shown_as_they_are_in_the_file(run: Path, tmp_path: Path) -> None:
    write_report([run], tmp_path / "page.html")
    text = text_of(tmp_path / "page.html")
    assert "cost of an episode, eur mean 18, from 4 to 32" in text
    assert "Cost of a step, eur : mean 4.5" in text
    assert "Return of an episode" not in text
    assert "All discounted, in units of the raw reward, the negative of costs." in text
    assert "Discounted, in eur, the negative of costs." in text
    data = TransitionDataset.load(
        tmp_path / "log.csv",
        columns={"obs": "x", "actions": "u", "rewards": "eur", "step": "t"},
        rewards_are="costs",
    )
    assert data.rewards.max() == -1.0  # what is trained on are rewards all the same


def test_scores_are_costs(run: Path, tmp_path: Path) -> None:
    config = yaml_dialect.read((run / "config.yaml").read_text())
    (run / "config.yaml").write_text(yaml_dialect.write({**config, "env_id": "Store-v0"}))
    records = [
        {"step": step, "seeds": [0, 1], "episodes": 2, "return_mean": returns}
        for step, returns in ((2, [-30.0, -20.0]), (4, [-31.0, -25.0]))
    ]
    (run / "evaluations.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    write_report([run], tmp_path / "page.html", with_data=False)
    text = text_of(tmp_path / "page.html")
    assert "costs: 28 [25, 31] eur an episode (interquartile mean over 2 seeds, 95% interval)" in text
    assert "as recorded, an episode cost 18 eur on average (4 to 32; lower is better)" in text
    assert "no better than the recorded episodes with 18 eur" in text
    assert "of 2 seeds, the interval is too narrow rather than too wide" in text
    assert "last − best" in text
    assert "28.0 ± 4.2 25.0 (2) 3.0" in text
    assert "lowest cost seen" in text
    assert "cost, eur (lower is better)" in text
    assert "share of seeds below τ" in text
    assert "mean cost of the data: 18" in text
    assert "-28" not in text
    (read,) = read_runs([run])
    found = last_estimate(read)
    assert found is not None
    assert found.value == -28.0  # as the records have it


def test_estimates_without_a_simulator_are_costs(run: Path, tmp_path: Path) -> None:
    gain = {"value": 4.0, "low": 1.0, "high": 7.0, "probability": 0.97}
    value = {"value": -10.0, "low": -15.0, "high": -6.0}
    policies = [
        {"seed": seed, "value": value, "improvement": own, "not_trusted_because": []}
        for seed, own in ((0, gain | {"value": 5.0}), (1, gain))
    ]
    behaviour = {"return": value | {"value": -13.0}, "value": value | {"value": -14.0}, "undiscounted": -18.0}
    behaviour |= {"weight_behind_cuts": 0.3, "behind_the_cuts": -2.0}
    record = {"step": 4, "gamma": 0.9, "updates": 10, "repeats": 5, "policies": policies, "behaviour": behaviour}
    record |= {
        "value": value,
        "improvement": gain,
        "data": {"title": "aside.csv", "episodes": 9, "share_trained_on": 0.0},
    }
    file = run / "offline_evaluations.jsonl"
    file.write_text(json.dumps(record) + "\n")
    write_report([run], tmp_path / "page.html", with_data=False)
    text = text_of(tmp_path / "page.html")
    assert (
        "Discounted by 0.9, run is estimated to cost 10 instead of the recorded behaviour’s 14 eur per episode: 4 less,"
        " or 29% (95% interval 1 to 7 less; Table 1 ). The interval excludes zero: a saving is shown. These are the"
        " mean of 2 seeds; export and predict take seed 0, whose own saving is 5 eur (95% interval 1 to 7 )." in text
    )
    assert "Estimated from 9 episodes of aside.csv alone. The probability of a saving is 0.97." in text
    recorded = "The recorded episodes of aside.csv cost 13 eur on average (18 eur undiscounted);"
    assert f"{recorded} the same method puts the behaviour at 14 eur." in text
    assert "The discount of 0.9 counts 72% of what an episode cost. The policy was trained discounted by 0.99." in text
    assert "By themselves" not in text  # each seed is shown to be
    assert "The estimate passed its checks, on episodes that were not trained on." in text
    assert "10 [6, 15] 4 [1, 7] 0.97 ✓ passed" in text
    assert "an episode cost 18 eur undiscounted" in text
    assert "2 of the behaviour's 14.0" in text
    file.write_text(json.dumps(record | {"improvement": gain | {"low": -1.0}}) + "\n")
    write_report([run], tmp_path / "page.html", with_data=False, force=True)
    text = text_of(tmp_path / "page.html")
    assert (
        "4 less, or 29% (95% interval -1 to 7 less; Table 1 ). The interval includes zero: no saving is shown." in text
    )
    near_zero = record | {"behaviour": behaviour | {"value": {"value": -14.0, "low": -30.0, "high": 2.0}}}
    some = [policies[0], policies[1] | {"improvement": gain | {"low": -1.0}}]
    cautions = ["9 episodes are few: so it is", "undiscounted: this assumes that all end", "log.csv: is odd"]
    file.write_text(json.dumps(near_zero | {"policies": some, "cautions": cautions, "gamma": 1.0}) + "\n")
    write_report([run], tmp_path / "page.html", with_data=False, force=True)
    text = text_of(tmp_path / "page.html")
    assert "run is estimated to cost 10 instead of the recorded behaviour’s 14 eur per episode: 4 less (95%" in text
    assert "The probability of a saving is 0.97. By itself, 1 of 2 seeds (seed 0) is shown to be better." in text
    assert "cost 13 eur on average; the same method puts the behaviour at 14 eur. The policy was trained" in text
    assert "not trained on. 9 episodes are few; this assumes that all end. Nobody" in text


def test_what_is_added_up_and_the_log_that_it_comes_from(run: Path, tmp_path: Path) -> None:
    """A rate is no unit of its sum: the column is named. A file that was made from a log names that."""
    facts = json.loads((run / "run.json").read_text())
    columns = {"columns": {"rewards": "Total $/h"}, "rewards_are": "costs"}
    first = Provenance.of("plant/kiln export.txt", columns, None)
    facts["dataset"][KEY] = Provenance.of("whole.npz", {}, first).to_json()
    (run / "run.json").write_text(json.dumps(facts))
    config = yaml_dialect.read((run / "config.yaml").read_text())
    config["dataset"] |= {"columns": None, "rewards_are": "rewards"}
    (run / "config.yaml").write_text(yaml_dialect.write(config))
    write_report([run], tmp_path / "page.html", with_data=False)
    text = text_of(tmp_path / "page.html")
    assert "log.csv, made from kiln export.txt: 8 episodes with 32 steps; as recorded, an episode cost 18 on" in text
    assert "(4 to 32; lower is better): ‘Total $/h’, summed over each episode." in text
    made = (
        "log.csv, made from whole.npz; that is made from plant/kiln export.txt, read with columns: (rewards: Total $/h)"
    )
    assert f"{made}, rewards_are: costs" in text


@pytest.mark.parametrize("name", ["cost", "Reward", "eur", "", None, 3])
def test_nothing_is_said_to_be_added_up(name: Any) -> None:
    """Where the name says no more, or is shown as the unit."""
    assert added_up({"rewards_are": "costs", "columns": {"rewards": name}}, {}) is None
    assert added_up({"rewards_are": "rewards", "columns": {"rewards": "profit"}}, {}) == "profit"


def test_other_estimates_and_how_to_get_them_again(run: Path, tmp_path: Path) -> None:
    """The commands of what is shown; estimates of other weights on the same data; no word on cuts where there are
    none, nor on scores that nobody asked for."""
    gain = {"value": 4.0, "low": 1.0, "high": 7.0, "probability": 0.97}
    value = {"value": -10.0, "low": -15.0, "high": -6.0}
    policies = [{"seed": seed, "value": value, "improvement": gain, "not_trusted_because": []} for seed in (0, 1)]
    record = {"step": 4, "seeds": [0, 1], "gamma": 1.0, "updates": 9_000, "repeats": 5, "policies": policies}
    record |= {"behaviour": {"return": value, "value": value, "weight_behind_cuts": 0.0}, "value": value}
    record |= {"improvement": gain, "data": {"title": "set aside.csv", "episodes": 9, "fingerprint": "ab12"}}
    record |= {"asked": {"seed": 0, "updates": 5_000}}
    own = record["data"] | {"fingerprint": json.loads((run / "run.json").read_text())["dataset"]["fingerprint"]}
    few = record | {
        "behaviour": {"return": value, "value": value},
        "data": own,
        "gamma": 0.99,
        "repeats": 7,
        "asked": {"updates": 20},
        "seeds": [1],
    }
    records = [record | {"step": 1}, record | {"step": 2}, few, record]
    (run / "offline_evaluations.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    write_report([run], tmp_path / "page.html", with_data=False)
    text = text_of(tmp_path / "page.html")
    assert "rl-training evaluate run-again --offline --data 'set aside.csv' --gamma 1 " in text
    assert "rl-training evaluate run-again --offline --updates 20 --repeats 7 --seeds 1 " in text
    assert "set aside.csv, SHA-256 ab12" in text
    assert "Judged undiscounted, trained discounted by 0.99." in text
    assert text.count("On these episodes, run was judged 2 times before, after 1 and 2 updates: to choose") == 1
    assert (
        "where these episodes begin, and on behind where one was cut. “Recorded”" in text
    )  # of the other record, which does not say that there are no cuts
    (run / "offline_evaluations.jsonl").write_text(json.dumps(record) + "\n")
    write_report([run], tmp_path / "page.html", with_data=False, force=True)
    text = text_of(tmp_path / "page.html")
    assert "where these episodes begin. “Recorded” is what the episodes cost; “behaviour” is" in text
    assert "before, after" not in text
    assert "no scores" not in text
    assert "data-toggle-run=" not in (tmp_path / "page.html").read_text().split("<script>")[0]


def test_a_page_of_earlier_weights_has_their_estimate(tmp_path: Path) -> None:
    """And names the same weights in every command, so that the page and an exported file agree."""
    rows = [f"{np.sin(row):.3f},{np.cos(row):.3f},{row // 4 + 1},{row % 4}" for row in range(32)]
    (tmp_path / "log.csv").write_text("\n".join(["x,u,eur,t", *rows]) + "\n")
    columns = {"obs": "x", "actions": "u", "rewards": "eur", "step": "t"}
    section = {"source": "file", "path": str(tmp_path / "log.csv"), "columns": columns, "rewards_are": "costs"}
    changes = {"dataset": section, "total_timesteps": 4, "checkpoint_interval": 2}
    run = manager.start(small_config(None, tmp_path, "iql", **changes)).run.path
    records = []
    for step, gain in ((2, 3.0), (4, 5.0)):
        told = {"improvement": {"value": gain, "low": 1.0, "high": 7.0}, "value": {"value": -10.0}}
        policy = {"seed": 0, **told, "not_trusted_because": []}
        data = {"title": "aside.csv", "episodes": 9, "share_trained_on": 0.0}
        behaviour = {"value": {"value": -10.0 - gain}, "return": {"value": -12.0}}
        made = {"step": step, "gamma": 0.9, "updates": 10, "repeats": 5, "seeds": [0], "data": data, **told}
        records.append({**made, "behaviour": behaviour, "policies": [policy]})
    (run / "offline_evaluations.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))

    def page(**which: Any) -> str:
        write_report([run], tmp_path / "page.html", force=True, **which)
        return text_of(tmp_path / "page.html")

    assert "behaviour’s 15 eur per episode: 5 less" in page()
    assert "Estimates and diagnostics" not in page(which=4)
    early = page(which=2)
    assert "behaviour’s 13 eur per episode: 3 less" in early
    assert (
        "Estimates and diagnostics are of its policy after 2 of 4 updates: export --which 2 writes that one." in early
    )
    assert "was judged once more, after 4 updates" in early
    (run / "offline_evaluations.jsonl").write_text(json.dumps(records[1]) + "\n")
    unjudged = page(which=2)
    assert "eur per episode" not in unjudged
    assert f"rl-training evaluate {run} --offline --which 2 estimates it from the recorded data." in unjudged
