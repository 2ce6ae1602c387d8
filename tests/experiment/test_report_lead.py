"""The first screen of a report says no more than is known, and its commands can be typed where it was made."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from rl_training import yaml_dialect
from rl_training.data.provenance import Provenance
from rl_training.experiment import manager
from rl_training.experiment.continuing import find_run
from rl_training.experiment.report import write_report
from rl_training.experiment.stored_estimates import TRAINED_ON
from small_runs import small_config


def lead_of(*runs: Path) -> str:
    page = runs[0].parent / "page.html"
    write_report(list(runs), page, with_data=False, force=True)
    first = page.read_text().split("<main>")[0].split('<dl class="lead">')[1]
    return " ".join(unescape(re.sub("<[^>]*>", "", first.replace("</p>", " "))).split())


@pytest.fixture
def run(data_file: Path, tmp_path: Path) -> Path:
    return manager.start(small_config(data_file, tmp_path / "runs")).run.path


def configure(run: Path, **changes: Any) -> None:
    """As if it had been trained so."""
    config = yaml_dialect.read((run / "config.yaml").read_text())
    (run / "config.yaml").write_text(yaml_dialect.write({**config, **changes}))


class TestWhetherTheEpisodesWereTrainedOn:
    """As far as it is known: nobody is told to try a policy because of what was not looked at."""

    def lead(self, run: Path, data: dict[str, Any], low: float = 1.0, cautions: tuple[str, ...] = ()) -> str:
        gain = {"value": 4.0, "low": low, "high": 7.0, "probability": 0.97}
        policies = [{"seed": 0, "value": gain, "improvement": gain, "not_trusted_because": []}]
        record = {"step": 20, "gamma": 0.9, "policies": policies, "value": gain, "improvement": gain}
        told = record | {"data": {"title": "a.npz", "episodes": 9} | data, "cautions": list(cautions)}
        (run / "offline_evaluations.jsonl").write_text(json.dumps(told) + "\n")
        return lead_of(run)

    def test_what_was_refused_on_others_is_not_hidden(self, run: Path) -> None:
        """An estimate on what was trained on does not stand alone where a better one was tried and failed."""
        self.lead(run, {"share_trained_on": 1.0})
        file = run / "offline_evaluations.jsonl"
        own = json.loads(file.read_text())
        failed = [{"seed": 0, "value": None, "improvement": None, "not_trusted_because": ["it diverged"]}]
        other = {"title": "aside.npz", "episodes": 9, "share_trained_on": 0.0, "fingerprint": "f"}
        refused = own | {"policies": failed, "value": None, "improvement": None, "data": other}
        file.write_text(json.dumps(refused) + "\n" + json.dumps(own) + "\n")
        text = lead_of(run)
        assert "which flatters it: on aside.npz, not trained on, no estimate could be trusted. Nobody" in text
        split = r"rl-training data split -c \S+config.yaml --held-out 0.5 -o train(-2)?.npz aside(-2)?.npz"
        assert re.search(rf"Set more episodes aside, {split}, train anew on the others, and", text)

    def test_estimates_of_either_discount_are_shown(self, run: Path) -> None:
        self.lead(run, {"share_trained_on": 0.0, "fingerprint": "f"})
        file = run / "offline_evaluations.jsonl"
        own = json.loads(file.read_text())
        file.write_text("".join(json.dumps(own | {"gamma": gamma}) + "\n" for gamma in (0.9, 0.99, 0.9)))
        page = run.parent / "both.html"
        write_report([run], page, with_data=False)
        text = page.read_text()
        assert re.search(r"discounted by 0\.9[^0-9]", text)
        assert re.search(r"discounted by 0\.99[^0-9]", text)

    def test_none_of_them(self, run: Path) -> None:
        text = self.lead(run, {"trained_on": False, "share_trained_on": 0.0})
        assert "passed its checks, on episodes that were not trained on. Nobody" in text
        assert "Try it carefully: rl-training export" in text

    @pytest.mark.parametrize("data", [{"trained_on": False}, {"share_trained_on": None}, {"share_trained_on": "x"}])
    def test_not_known(self, run: Path, data: dict[str, Any]) -> None:
        text = self.lead(run, data)
        assert "passed its checks; whether these episodes were trained on is not known. Nobody" in text
        assert "not trained on. " not in text
        assert "Make sure that these episodes were not trained on, then try it carefully: rl-training export" in text

    @pytest.mark.parametrize(("share", "told"), [(0.4, "40%"), (0.6, "60%"), (0.001, "1%")])
    def test_some_of_them(self, run: Path, share: float, told: str) -> None:
        text = self.lead(run, {"trained_on": share > 0.5, "share_trained_on": share})
        assert f"passed its checks; about {told} of its episodes were trained on, which flatters it. Nobody" in text
        assert "export" not in text

    @pytest.mark.parametrize("data", [{"trained_on": True}, {"trained_on": True, "share_trained_on": 1.0}])
    @pytest.mark.parametrize("low", [1.0, -1.0])
    def test_all_of_them(self, run: Path, data: dict[str, Any], low: float) -> None:
        text = self.lead(run, data, low, (TRAINED_ON,))
        assert "; it was made on the episodes that it was trained on, which flatters it. Nobody" in text
        assert (
            "rl-training data split sets episodes aside; train on the others, then rl-training evaluate NEW_RUN" in text
        )


def test_how_often_it_fails_is_not_told(run: Path) -> None:
    """Where ends cost something: of those that occurred, with how many were recorded."""
    test = TestWhetherTheEpisodesWereTrainedOn()
    assert "How often" not in test.lead(run, {"share_trained_on": 0.0})
    description = json.loads((run / "run.json").read_text())
    facts = description["dataset"]
    added = {"end_reasons": {"home": "termination", "crash": "termination", "trip": "termination"}}
    added |= {"at_termination": {"crash": -4.0, "home": 1.0, "trip": -2.0}}  # type: ignore[dict-item]
    ends = ["home"] * (int(facts["episodes"]) - 2) + ["crash"] * 2
    facts["provenance"] = Provenance("log.csv", options=added, reasons=tuple(ends)).to_json()
    (run / "run.json").write_text(json.dumps(description))
    told = "How often the policy would end by crash is not estimated by itself: what that costs is part of the figure"
    assert f"{told}; 2 of {len(ends)} recorded episodes ended so. Nobody has" in test.lead(
        run, {"share_trained_on": 0.0}
    )


class TestTheNextCommand:
    """Of what is not decided, the one that `evaluate --offline` prints."""

    def lead(self, run: Path, repeats: int, low: float, why: tuple[str, ...] = (), gained: float = 4.0) -> str:
        gain = None if why else {"value": gained, "low": low, "high": 2 * gained - low, "probability": 0.9}
        policies = [{"seed": 0, "value": gain, "improvement": gain, "not_trusted_because": list(why)}]
        told = {"step": 20, "gamma": 0.99, "repeats": repeats, "policies": policies, "value": gain, "improvement": gain}
        data = {"title": "a.npz", "episodes": 80, "share_trained_on": 0.0, "fingerprint": "f"}
        (run / "offline_evaluations.jsonl").write_text(json.dumps(told | {"data": data, "cautions": []}) + "\n")
        return lead_of(run)

    def test_more_resamples(self, run: Path) -> None:
        text = self.lead(run, 5, -0.5)
        assert "Estimate again with more resamples, which narrow the interval: rl-training evaluate" in text
        assert "--offline --data a.npz --repeats 20." in text

    def test_more_episodes(self, run: Path) -> None:
        text = self.lead(run, 20, -1.0)
        assert (
            "Record more episodes, some 130 in all that are not trained on, and estimate on them: rl-training" in text
        )
        assert "--offline --data MORE --repeats 20, where MORE is their file." in text
        assert "Record more episodes, many more in all that are not trained on" in self.lead(run, 20, -40.0)

    def test_a_nearer_horizon(self, run: Path) -> None:
        """Of what diverges, as in the terminal; of few episodes first a larger part that is set aside."""
        text = self.lead(run, 5, 0.0, ("it diverged; record more, or look less far ahead with a smaller --gamma",))
        split = r"rl-training data split -c \S+config.yaml --held-out 0.5 -o train(-2)?.npz aside(-2)?.npz"
        assert re.search(rf"Next ?Set more episodes aside, and train anew on the others: {split}\.", text)
        assert re.search(
            r"Or look less far ahead: rl-training evaluate \S+ --offline --data a.npz --gamma 0.95\.", text
        )

    def test_a_longer_training(self, run: Path) -> None:
        assert re.search(
            r"then estimate it again: rl-training resume \S+ --total-timesteps \d+\.",
            self.lead(run, 20, -40.0, gained=-4.0),
        )

    def test_what_the_reason_asks_for(self, run: Path) -> None:
        asked = "the value still moved; go further with --updates 40000 --repeats 10, or record more"
        text = self.lead(run, 5, 0.0, (asked,))
        assert re.search(
            r"Let it go on for longer: rl-training evaluate \S+ --offline --data a.npz --updates 40000", text
        )
        assert "There is no reliable estimate of run yet: the calculation had not settled." in text
        assert "More on this result the value still moved." in text.replace("result", "result ")
        assert self.lead(run, 3, 0.0, (asked,)).count("--repeats") == 1  # in the place of its own


class TestFromWhatItLearned:
    def test_by_trying_with_data_besides(self, run: Path) -> None:
        """As `finetune` leaves it."""
        configure(run, online={"prior": "mixed"})
        assert "Learned by trying, with recorded data besides: run (" in lead_of(run)

    def test_a_damaged_description(self, run: Path) -> None:
        (run / "run.json").write_text("{")
        assert "Learned from recorded data: run (bc, 1 seed)." in lead_of(run)
        (run / "config.yaml").unlink()
        assert "Learned in a way that is not known: run (" in lead_of(run)


def score(run: Path, *returns: float) -> None:
    """As measured in an environment, by each seed."""
    seeds = list(range(len(returns)))
    configure(run, env_id="Store-v0", seed=seeds)
    record = {"step": 20, "seeds": seeds, "episodes": 2, "return_mean": list(returns)}
    (run / "evaluations.jsonl").write_text(json.dumps(record) + "\n")


@pytest.mark.parametrize(
    ("returns", "told"),
    [
        ((1.0, 2.0, 3.0), ", better than the recorded episodes"),
        ((-9e3, 9e4, 9e4, 9e4), ", not shown to be better than the recorded episodes"),
        ((1.0,), ", not shown to be better than the recorded episodes"),  # one seed has no interval
        ((-9e3, -9e3), ", no better than the recorded episodes"),
    ],
)
def test_better_than_the_data_by_its_interval(run: Path, returns: tuple[float, ...], told: str) -> None:
    score(run, *returns)
    assert told in lead_of(run)


def test_several_that_were_not_played(run: Path, data_file: Path) -> None:
    other = manager.start(small_config(data_file, run.parent, name="other")).run.path
    for one in (run, other):
        configure(one, env_id="Store-v0")
    text = lead_of(run, other)
    assert "These 2 runs could not be judged: they were not played yet." in text
    assert "How good they are is not known." in text
    assert "rl-training evaluate RUN plays each." in text
    assert "run could not be judged: it was not played yet." in lead_of(run)


def test_commands_find_the_run(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name in `runs/`, and by its path anywhere else, or where the name is of something else."""
    here = run.parent.parent
    for folder, named in ((here, "run"), (here.parent, f"{here.name}/runs/run"), (run / "checkpoints", str(run))):
        monkeypatch.chdir(folder)
        assert f"rl-training evaluate {named} --offline estimates it" in lead_of(run)
        assert find_run(named).resolve() == run.resolve()
    monkeypatch.chdir(here)
    (here / "run").mkdir()
    assert "rl-training evaluate runs/run --offline estimates it" in lead_of(Path("runs/run"))


class TestSeveralEstimates:
    @pytest.mark.parametrize(
        ("gammas", "titles", "told"),
        [
            ((0.9, 0.9), ("a.npz", "a.npz"), "Of the 2 runs that could be judged, its improvement is the largest"),
            ((1.0, 0.9), ("a.npz", "a.npz"), "Other runs were judged in another way"),
            ((0.9, 0.9), ("a.npz", "b.npz"), "Other runs were judged in another way"),
        ],
    )
    def test_only_those_that_are_alike_are_compared(
        self, gammas: tuple[float, ...], titles: tuple[str, ...], told: str, data_file: Path, tmp_path: Path
    ) -> None:
        runs = []
        for name, gamma, title, value in zip("ab", gammas, titles, (4.0, 2.0), strict=True):
            run = manager.start(small_config(data_file, tmp_path / "runs", name=name)).run.path
            gain = {"value": value, "low": 1.0, "high": 7.0, "probability": 0.97}
            policies = [{"seed": 0, "value": gain, "improvement": gain, "not_trusted_because": []}]
            record = {"step": 20, "gamma": gamma, "policies": policies, "value": gain, "improvement": gain}
            told_of = record | {"data": {"title": title, "episodes": 9}, "cautions": []}
            (run / "offline_evaluations.jsonl").write_text(json.dumps(told_of) + "\n")
            runs.append(run)
        lead = lead_of(*runs)
        drawn = (runs[0].parent / "page.html").read_text().count(" by 0.9, with 95% intervals")
        assert drawn == (gammas == (0.9, 0.9) and len(set(titles)) == 1)  # a single interval is not drawn
        both = (
            "Of the 2 runs that could be judged, its improvement is the largest",
            "Other runs were judged in another way",
        )
        assert [words for words in both if words in lead] == [told]
