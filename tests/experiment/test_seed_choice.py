"""Whose policy is taken of several seeds: `export`, `predict`, the film and the report's first lines agree."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.cli.known_quality import quality
from rl_training.errors import CheckpointError
from rl_training.experiment import manager
from rl_training.experiment.report import write_report
from rl_training.experiment.seed_choice import choose_seed
from rl_training.experiment.shipping.exporting import export_policy
from rl_training.experiment.shipping.hub import write_folder
from rl_training.runtime.run_directory import RunDirectory
from small_runs import small_config

SEEDS = [4, 2, 7]
OBS = np.array([1.0, 0.0, 0.5], np.float32)


@pytest.fixture
def run(data_file: Path, tmp_path: Path) -> Path:
    return manager.start(small_config(data_file, tmp_path / "runs", seed=SEEDS, checkpoint_interval=10)).run.path


def estimated(gains: Mapping[int, Sequence[float] | None], step: int = 20, **data: Any) -> dict[str, Any]:
    """A record of an estimate; gains: value, low and high of each seed, or none where it was refused."""
    policies = []
    for seed, gain in gains.items():
        found = None if gain is None else dict(zip(("value", "low", "high"), gain, strict=True)) | {"probability": 0.9}
        why = ["it is odd"] if gain is None else []
        policies.append({"seed": seed, "value": found, "improvement": found, "not_trusted_because": why})
    known = [policy["value"] for policy in policies if policy["value"] is not None]
    mean = known[0] if known else None
    return {
        "step": step,
        "seeds": list(gains),
        "gamma": 0.9,
        "updates": 5000,
        "repeats": 5,
        "level": 0.95,
        "policies": policies,
        "value": mean,
        "improvement": mean,
        "behaviour": {},
        "data": {"title": "a.npz", "episodes": 90, "share_trained_on": 0.0} | data,
        "cautions": [],
    }


def store(run: Path, *records: Mapping[str, Any], kind: str = "offline_evaluations") -> None:
    (run / f"{kind}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


def played(step: int, returns: Sequence[float]) -> dict[str, Any]:
    ends = {name: list(returns) for name in ("return_mean", "return_std", "return_min", "return_max", "length_mean")}
    return {"step": step, "seeds": SEEDS, "episodes": 2, **ends, "terminations": [0] * len(SEEDS)}


def taken(run: Path, which: str = "last") -> tuple[int, str]:
    """The seed, after holding what is predicted and exported to it."""
    policy = manager.load_policy(run, which)
    chosen = policy.seed_choice
    assert np.array_equal(policy.predict(OBS), policy.predict(OBS, seed=chosen.seed))
    assert export_policy(policy, run / "p.onnx", force=True).card["policy"]["seed"] == chosen.seed
    return chosen.seed, str(chosen.why)


def lead_of(run: Path) -> str:
    write_report([run], run / "page.html", with_data=False, force=True)
    first = (run / "page.html").read_text().split("<main>")[0].split('<dl class="lead">')[1]
    return " ".join(unescape(re.sub("<[^>]*>", "", first.replace("</p>", " "))).split())


def test_without_evidence_it_is_the_first(run: Path) -> None:
    seed, why = taken(run)
    assert (seed, why) == (4, "the first of 3, as no evaluation or estimate of this checkpoint tells which is better")


def test_the_best_that_is_trusted(run: Path) -> None:
    store(run, estimated({4: None, 2: (1.0, 0.2, 1.8), 7: (3.0, 1.0, 5.0)}))
    assert taken(run) == (7, "its estimate is the best of 2 seeds, that of seed 4 was refused")
    assert "writes the policy of seed 7 (its estimate is the best of 2 seeds," in lead_of(run)


def test_one_that_is_shown_to_be_better_comes_first(run: Path) -> None:
    store(run, estimated({4: (9.0, -4.0, 22.0), 2: (1.0, 0.2, 1.8), 7: (0.5, 0.1, 0.9)}))
    assert taken(run)[0] == 2


def test_where_all_were_refused(run: Path) -> None:
    store(run, estimated(dict.fromkeys(SEEDS)))
    assert taken(run) == (4, "the first of 3, as no estimate of a seed can be trusted")


def test_episodes_that_were_not_trained_on_come_first_as_in_the_report(run: Path) -> None:
    seen = estimated({4: (1.0, 0.2, 1.8), 2: (3.0, 1.0, 5.0), 7: None}, title="own.npz", share_trained_on=1.0)
    store(run, estimated({4: None, 2: None, 7: (2.0, 1.0, 3.0)}), seen)
    assert taken(run)[0] == 7
    assert "seed 7" in lead_of(run)


def test_estimates_of_other_weights_say_nothing(run: Path) -> None:
    store(run, estimated({4: None, 2: None, 7: (2.0, 1.0, 3.0)}, step=10))
    assert taken(run)[0] == 4
    assert taken(run, "10")[0] == 7


def test_what_was_played_comes_before_estimates(run: Path) -> None:
    store(run, played(10, [9.0, 0.0, 0.0]), played(20, [1.0, 5.0, float(3)]), kind="evaluations")
    store(run, estimated({4: None, 2: None, 7: (2.0, 1.0, 3.0)}))
    told = "it scored best of 3 seeds in the evaluation during training at step 20 (2 episodes each)"
    assert taken(run) == (2, told)
    configured = (run / "run.json").read_text().replace('"env_id": null', '"env_id": "Pendulum-v1"')
    (run / "run.json").write_text(configured)
    assert "Seed 2 scored best: export and predict take it." in lead_of(run)


@pytest.mark.parametrize("text", ["", "[]\n", '{"step": 20}\n', '{"step": 20, "policies": 3, "value": {}}\n', "\x00"])
def test_what_cannot_be_read_says_nothing(run: Path, text: str) -> None:
    (run / "offline_evaluations.jsonl").write_text(text)
    (run / "evaluations.jsonl").write_text('{"step": 20, "seeds": [[]], "return_mean": [1]}\n')
    assert manager.load_policy(run).seed_choice.seed == 4


def test_reasons_that_differ_in_numbers_alone_are_said_once(run: Path) -> None:
    record = estimated(dict.fromkeys(SEEDS))
    for policy, updates in zip(record["policies"], ("10,500", "6,500", "8,000"), strict=True):
        policy["not_trusted_because"] = [f"the fit was stopped after {updates} updates: Q reaches 9.5; record more"]
    store(run, record)
    assert "no reliable estimate of run yet: the fit was stopped after 6,500 to 10,500 updates." in lead_of(run)


class TestWhereverTheRunLies:
    """By what is stored in the run itself, and in no other."""

    @pytest.fixture
    def inner(self, data_file: Path, run: Path) -> Path:
        """A run among the checkpoints of another, as `--runs-dir` may have it."""
        runs = run / "checkpoints"
        store(run, played(20, [1.0, 2.0, 9.0]), kind="evaluations")
        path = manager.start(small_config(data_file, runs, seed=SEEDS, name="inner", checkpoint_interval=10)).run.path
        store(path, played(20, [1.0, 9.0, 2.0]), kind="evaluations")
        return path

    def test_a_run_in_a_folder_called_checkpoints(self, inner: Path) -> None:
        assert manager.load_policy(inner).seed_choice.seed == 2
        assert manager.load_policy(inner / "checkpoints/step-20").seed_choice.seed == 2
        assert manager.load_policy(inner.parent / "step-20").seed_choice.seed == 7

    def test_its_estimates_are_stored_with_it(self, inner: Path, run: Path) -> None:
        policy = manager.load_policy(inner)
        policy.evaluate_offline(updates=10, repeats=2)
        assert len((inner / "offline_evaluations.jsonl").read_text().splitlines()) == 1
        assert not (run / "offline_evaluations.jsonl").exists()

    def test_a_link_to_a_checkpoint(self, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        store(run, played(20, [1.0, 2.0, 9.0]), kind="evaluations")
        links = tmp_path / "links"
        links.mkdir()
        (links / "best").symlink_to(run / "checkpoints/step-20")
        (links / "again").symlink_to("best")
        (links / "folder").symlink_to(run / "checkpoints")
        (links / "run").symlink_to(run)
        for name in (
            "best",
            "again",
            "folder/step-20",
            "run/checkpoints/step-20",
            "run",
            "folder/../checkpoints/step-20",
        ):
            assert manager.load_policy(links / name).seed_choice.seed == 7, name
        monkeypatch.chdir(links / "best")
        assert manager.load_policy(".").seed_choice.seed == 7

    def test_checkpoints_on_another_disk(self, run: Path, tmp_path: Path) -> None:
        """A link of another name in the place of the folder."""
        store(run, played(20, [1.0, 2.0, 9.0]), kind="evaluations")
        (run / "checkpoints").rename(tmp_path / "scratch")
        (run / "checkpoints").symlink_to(tmp_path / "scratch")
        (tmp_path / "best").symlink_to(run / "checkpoints/step-20")
        for place in (run, run / "checkpoints/step-20", tmp_path / "best"):
            assert manager.load_policy(place).seed_choice.seed == 7

    def test_a_link_is_told_from_the_run_that_it_leads_to(self, run: Path, tmp_path: Path) -> None:
        (tmp_path / "best").symlink_to(run / "checkpoints/step-20")
        with pytest.raises(CheckpointError, match=re.escape(f"continue its run with `rl-training resume {run}`")):
            manager.resume(tmp_path / "best")


class TestWhereSeedsDiverged:
    """The reason is the one that was decisive."""

    def chosen(self, run: Path, sound: Sequence[int]) -> tuple[int, str, str | None]:
        found = choose_seed(RunDirectory.open(run), 20, SEEDS, sound)
        return found.seed, str(found.why), found.caution

    @pytest.mark.parametrize("evaluated", [False, True])
    def test_all_but_one(self, run: Path, evaluated: bool) -> None:
        if evaluated:
            store(run, played(20, [1.0, 5.0, 3.0]), kind="evaluations")
        assert self.chosen(run, [7]) == (7, "the only one that has not diverged", None)

    def test_the_first(self, run: Path) -> None:
        why = "the first of 2 that have not diverged, as no evaluation or estimate of this checkpoint tells"
        assert self.chosen(run, [2, 7]) == (2, f"{why} which is better", None)

    def test_the_best_of_the_others(self, run: Path) -> None:
        store(run, played(20, [9.0, 1.0, 3.0]), kind="evaluations")
        why = "it scored best of 2 seeds in the evaluation during training at step 20 (2 episodes each)"
        caution = "seed 7 is the best of 2 by its score, which is therefore optimistic"
        assert self.chosen(run, [2, 7]) == (7, why, caution)

    def test_one_that_alone_was_scored(self, run: Path) -> None:
        store(run, played(20, [9.0, float("nan"), 3.0]), kind="evaluations")
        why = "it scored as the only one in the evaluation during training at step 20 (2 episodes each)"
        assert self.chosen(run, [2, 7]) == (7, why, None)


class TestWhatTheCardSays:
    """The best of several is partly luck."""

    CAUTION = "seed 7 is the best of 3 by its estimate, which is therefore optimistic"

    def test_of_a_seed_that_was_chosen_by_its_number(self, run: Path, tmp_path: Path) -> None:
        pytest.importorskip("onnxruntime")
        store(run, estimated({4: (0.5, 0.2, 0.8), 2: (1.0, 0.2, 1.8), 7: (3.0, 1.0, 5.0)}))
        policy = manager.load_policy(run)
        card = export_policy(policy, tmp_path / "a.onnx").card
        assert card["policy"]["seed_caution"] == self.CAUTION
        assert quality(card, run, "last").endswith(f"; {self.CAUTION}")
        write_folder(policy, tmp_path / "hub", "me/policy")
        assert f"{self.CAUTION.capitalize()}." in (tmp_path / "hub/README.md").read_text()

    def test_but_not_of_one_that_was_named_or_is_the_first(self, run: Path, tmp_path: Path) -> None:
        pytest.importorskip("onnxruntime")
        assert export_policy(manager.load_policy(run), tmp_path / "a.onnx").card["policy"]["seed_caution"] is None
        store(run, estimated({4: (0.5, 0.2, 0.8), 2: (1.0, 0.2, 1.8), 7: (3.0, 1.0, 5.0)}))
        named = export_policy(manager.load_policy(run), tmp_path / "b.onnx", seed=7).card
        assert named["policy"]["seed_caution"] is None
        assert "optimistic" not in quality(named, run, "last")


def test_what_is_stored_meanwhile_counts(run: Path) -> None:
    policy = manager.load_policy(run)
    assert policy.seed_choice.seed == 4
    store(run, played(20, [1.0, 5.0, 3.0]), kind="evaluations")
    policy.choose_seed_anew()
    assert policy.seed_choice.seed == 2
