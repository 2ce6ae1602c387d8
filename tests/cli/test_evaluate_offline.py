"""`rl-training evaluate --offline`, and what the report, the card and `train` say of it."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
import torch

from rl_training.cli import evaluating_offline, judging, next_estimates, training
from rl_training.cli.known_quality import quality
from rl_training.cli.other_data import read_as_the_runs
from rl_training.cli.split_anew import SplitAnew, split_anew
from rl_training.data.doctor.wording import alike
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import ColumnsError, ConfigError, DataError
from rl_training.experiment import manager, offline_evaluation
from rl_training.experiment.costs import RETURNS, Shown
from rl_training.experiment.manager import load_policy
from rl_training.experiment.offline_doubts import Doubt
from rl_training.experiment.report import without_simulator
from rl_training.experiment.shipping import hub
from rl_training.experiment.statistics import Estimate
from rl_training.experiment.stored_estimates import gain_between
from rl_training.runtime.fitted_evaluation import OfflineEvaluationConfig
from rl_training.runtime.trainer import train
from small_runs import small_config

QUICK = ("--updates", 20, "--repeats", 2)
SPLIT = SplitAnew(
    "rl-training data split -c config.yaml --held-out 0.5 -o train-2.csv aside-2.csv", "train-2.csv", "aside-2.csv"
)


@pytest.fixture(scope="module")
def runs(data_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two seeds, and another run on the same data."""
    folder = tmp_path_factory.mktemp("runs")
    return {
        name: train(small_config(data_file, folder, name=name, seed=seeds)).run.path
        for name, seeds in (("one", [4, 2]), ("two", [0]))
    }


def test_a_table(command: Any, runs: dict[str, Path]) -> None:
    code, out, err = command("evaluate", runs["one"], "--offline", *QUICK)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].endswith("(last checkpoint, update 20) without a simulator: fitted Q evaluation")
    assert lines[1].endswith("pendulum.npz: 10 episodes, 2,000 transitions; 2 resamples of them, 20 updates each")
    assert lines[2].startswith("  discounted by 0.99, raw reward")
    assert [line.split()[0] for line in lines[4:6]] == ["recorded", "behaviour"]
    assert [line.split()[:2] for line in lines[6:8]] == [["seed", "4"], ["seed", "2"]]
    assert "note: the policy was trained on these episodes" in out


def test_data_that_have_changed_are_warned_of_first(command: Any, data_file: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.npz"
    shutil.copy(data_file, own)
    run = train(small_config(own, tmp_path)).run.path
    with np.load(own) as held:
        np.savez(own, **(dict(held) | {"rewards": held["rewards"] + 1.0}))
    out = command("evaluate", run, "--offline", *QUICK).out
    notes = [line for line in out.splitlines() if line.startswith(("  note: ", "  warning: "))]
    assert notes[0] == "  warning: the data have changed since the policy was trained"
    assert len(notes) > 1


def test_json_is_what_is_stored(command: Any, runs: dict[str, Path]) -> None:
    told = json.loads(command("evaluate", runs["one"], "--offline", *QUICK, "--seeds", 2, "--json").out)
    stored = json.loads((runs["one"] / "offline_evaluations.jsonl").read_text().splitlines()[-1])
    assert told == {"run": str(runs["one"]), "which": "last", **stored}
    assert told["seeds"] == [2]
    for words in (("--seeds", 2, "--seeds", 4), ("--seeds", "4,2", "--seeds", 4)):
        assert json.loads(command("evaluate", runs["one"], "--offline", *QUICK, *words, "--json").out)["seeds"] == [
            4,
            2,
        ]


def test_runs_on_the_same_episodes_are_compared(
    command: Any, runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("evaluate", runs["one"], runs["two"], "--offline", *QUICK)
    monkeypatch.setattr(offline_evaluation, "doubts", lambda *_: [])
    told = json.loads(command(*words, "--json").out)
    values = {run["run"]: run["value"]["value"] for run in told["runs"]}
    (found,) = told["improvement"]
    assert found["value"] == pytest.approx(values[found["run"]] - values[found["over"]])
    assert found["value"] > 0.0
    assert found["low"] < found["value"] < found["high"]
    assert 0.5 < found["probability"] <= 1.0
    assert "improvement of one run over another, on the same episodes" in command(*words).out
    monkeypatch.setattr(offline_evaluation, "doubts", lambda *_: [Doubt("of a test")])
    assert json.loads(command(*words, "--json").out)["improvement"] == []
    assert "not compared" in command(*words).out


def told_of(
    can_go_on: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *parts: tuple[float, int, int]
) -> list[str]:
    """What is said where nobody watches, after so many seconds, of so many updates."""
    now = [0.0]
    monkeypatch.setattr(evaluating_offline.time, "monotonic", lambda: now[0])
    told = evaluating_offline._Told(can_go_on=can_go_on)
    for seconds, done, planned in parts:
        now[0] = seconds
        told.seldom(done, planned)
    return capsys.readouterr().err.splitlines()


def test_how_far_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Of how many updates, for how long still and at the longest; that more are added, and why, is told at once."""
    parts = ((10.0, 500, 5_000), (20.0, 1_000, 5_000), (40.0, 2_000, 5_000), (50.0, 2_500, 10_000))
    assert told_of(True, monkeypatch, capsys, *parts) == [
        "fitted: 500 of 5,000 updates · 50/s · 1:30 left, 6:30 if it does not settle",
        "fitted: 2,000 of 5,000 updates · 50/s · 1:00 left, 6:00 if it does not settle",
        "fitted: 2,500 of 10,000 updates · 50/s · 2:30 left, 5:50 if it does not settle · 5,000 added: not settled yet",
    ]
    assert told_of(False, monkeypatch, capsys, *parts[:2]) == ["fitted: 500 of 5,000 updates · 50/s · 1:30 left"]
    assert told_of(True, monkeypatch, capsys, (0.5, 500, 5_000)) == []


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        ([Doubt("the value still moved", updates=10_000)], ["--updates 10000  # about 1:40"]),
        (
            [Doubt("it diverged", nearer=True)],
            [
                "next: rl-training data split -c config.yaml --held-out 0.5 -o train-2.csv aside-2.csv  # 10 episodes"
                " may be too few: train anew on train-2.csv, then judge that run by aside-2.csv",
                "--gamma 0.95  # judges the first 20 or so of 200 steps of an episode, not the whole; about 0:50,"
                " 3:20 if it does not settle",
            ],
        ),
        (  # more updates would be in vain, as another reason stays
            [Doubt("it lies behind its cut", nearer=True), Doubt("the value still moved", updates=10_000)],
            [
                "next: rl-training data split -c config.yaml --held-out 0.5 -o train-2.csv aside-2.csv  # 10 episodes"
                " may be too few: train anew on train-2.csv, then judge that run by aside-2.csv",
                "--gamma 0.95  # judges the first 20 or so of 200 steps of an episode, not the whole; about 0:50,"
                " 3:20 if it does not settle",
            ],
        ),
        ([Doubt("the value still moved", updates=10_000), Doubt("there are only 5 episodes; record more")], []),
        ([Doubt("it diverged", nearer=True), Doubt("there are only 5 episodes; record more")], []),
        ([Doubt("a run called --gamma, trained with --updates 700")], []),  # what a text says is not looked at
    ],
)
def test_what_to_do_next(runs: dict[str, Path], reasons: list[Doubt], expected: list[str]) -> None:
    """Where nothing is trusted: a command, and how long it takes; of few episodes, that there should be more."""
    found = load_policy(runs["two"]).evaluate_offline(updates=10, repeats=2, store=False)
    refused = tuple(replace(policy, why_not=tuple(reasons)) for policy in found.policies)
    settings = found.settings.model_copy(update={"updates": 5_000})
    made = replace(found, policies=refused, updates=5_000, settings=settings)
    one = next_estimates.Estimated(Path("a run"), "best", made, 50.0, split=SPLIT)
    asked = next_estimates.AskedOffline("other.npz", None, None, None, "best", None, stochastic=False)
    start = "next: rl-training evaluate 'a run' --offline --which best --data other.npz "
    lines = [words if words.startswith("next: ") else start + words for words in expected]
    assert list(next_estimates.next_steps(one, asked)) == lines


@pytest.mark.parametrize(
    ("trusted", "expected"),
    [
        (
            None,
            [
                "  # the run's own discount, 0.99, counts about 43% of an episode of 200 steps; about 0:50, 3:20 if",
                SPLIT,
            ],
        ),
        (True, [SPLIT]),  # it stands already
        (False, [SPLIT, " --gamma 0.95  # judges the first 20 or so of 200 steps"]),
    ],
)
def test_the_runs_own_discount_comes_before_a_nearer_one(
    runs: dict[str, Path], trusted: bool | None, expected: list[Any]
) -> None:
    """Where a larger one was asked for and refused, unless it was judged already."""
    found = load_policy(runs["two"]).evaluate_offline(updates=10, repeats=2, store=False)
    refused = tuple(replace(policy, why_not=(Doubt("it diverged", nearer=True),)) for policy in found.policies)
    settings = found.settings.model_copy(update={"updates": 5_000})
    made = replace(found, policies=refused, updates=5_000, settings=settings, gamma=1.0)
    one = next_estimates.Estimated(Path("run"), "last", made, 50.0, split=SPLIT, own_gamma=0.99, own_trusted=trusted)
    asked = next_estimates.AskedOffline("other.npz", None, None, 1.0, "last", None, stochastic=False)
    told = list(next_estimates.next_steps(one, asked))
    start = "next: rl-training evaluate run --offline --data other.npz"
    begins = [f"next: {words.command}" if words is SPLIT else start + words for words in expected]
    assert [line.startswith(words) for line, words in zip(told, begins, strict=True)] == [True] * len(begins)


def test_what_has_to_be_typed_to_set_more_episodes_aside(command: Any, tmp_path: Path) -> None:
    """It runs as it stands: by the configuration of the log, or else by options; into files that are not there yet."""
    rows = [f"{i // 5},{i % 5},{i / 100},{i % 3},{int(i % 5 == 4)}" for i in range(100)]
    (tmp_path / "my log.csv").write_text("\n".join(["batch,minute,fan [%],cost [EUR],end", *rows]) + "\n")
    columns = "{obs: minute, actions: 'fan [%]', rewards: 'cost [EUR]', episode_ids: batch, terminations: end}"
    section = f"{{source: file, path: my log.csv, columns: {columns}, rewards_are: costs}}"
    Path("mine.yaml").write_text(f"algo: bc\ntotal_timesteps: 10\ndataset: {section}\n")
    assert command("data", "split", "-c", "mine.yaml", "-o", "train.csv", "aside.csv").code == 0
    run = train(small_config(tmp_path / "train.csv", tmp_path)).run.path
    one = split_anew(load_policy(run))
    assert one is not None
    assert one.command == "rl-training data split -c mine.yaml --held-out 0.5 -o train-2.csv aside-2.csv"
    # another one of the same log, that reads more of it, comes first by its name: it is not what was split by
    other_columns = section.replace("obs: minute", "obs: [minute, batch]")
    Path("all.yaml").write_text(f"algo: bc\ntotal_timesteps: 10\ndataset: {other_columns}\n")
    assert split_anew(load_policy(run)) == one
    Path("mine.yaml").unlink()
    other = split_anew(load_policy(run))
    assert other is not None
    assert other.command.startswith("rl-training data split 'my log.csv' --columns obs=minute ")
    assert command(*shlex.split(other.command)[1:]).code == 0
    sizes = [TransitionDataset.load(name).n_episodes for name in ("train-2.csv", "aside-2.csv")]
    assert sizes == [10, 10]
    whole = split_anew(load_policy(train(small_config(tmp_path / "aside-2.csv", tmp_path, name="other")).run.path))
    assert whole is not None
    assert "'my log.csv'" in whole.command
    assert whole.train == "train-2-2.csv"
    Path("my log.csv").unlink()
    assert split_anew(load_policy(run)) is None


@pytest.mark.parametrize(
    ("gain", "apart", "resumable", "expected"),
    [
        (3.0, 0.5, True, []),  # decided
        (-3.0, 0.5, True, []),
        (3.0, 1.0, True, ["evaluate run --offline --repeats 20 --gamma 0.9  # not decided: more resamples"]),
        (
            3.0,
            2.0,
            True,
            ["evaluate run --offline --data MORE --gamma 0.9  # not decided; MORE: some 50 episodes that"],
        ),
        (
            0.1,
            2.0,
            True,
            ["evaluate run --offline --data MORE --gamma 0.9  # not decided; MORE: many more episodes that"],
        ),
        (-3.0, 2.0, True, ["resume run --total-timesteps 40  # not decided: about as good as the behaviour;"]),
        (-3.0, 2.0, False, ["evaluate run --offline --data MORE --gamma 0.9  # not decided; MORE: some 50 episodes"]),
    ],
)
def test_what_may_decide_it(
    runs: dict[str, Path], gain: float, apart: float, resumable: bool, expected: list[str]
) -> None:
    """Where a trusted interval holds 0: the one command that may part the two."""
    found = load_policy(runs["two"]).evaluate_offline(updates=10, repeats=5, store=False)
    (policy,) = found.policies
    sure = replace(policy, value=Estimate(gain), why_not=(), missed=0.0)
    repeats = np.stack([gain + apart * np.array([-1.0, -1.0, 0.0, 1.0, 1.0]), np.zeros(5)], 1)
    changes = {"policies": (sure,), "behaviour_value": Estimate(0.0), "behaviour_missed": 0.0, "repeats": repeats}
    longer = "rl-training resume run --total-timesteps 40" if resumable else None
    one = next_estimates.Estimated(Path("run"), "last", replace(found, **changes), 50.0, RETURNS, longer)
    asked = next_estimates.AskedOffline(None, None, None, 0.9, "last", None, stochastic=False)
    told = list(next_estimates.next_steps(one, asked))
    assert len(told) == len(expected)
    assert all(line.startswith(f"next: rl-training {words}") for line, words in zip(told, expected, strict=True))


def test_more_resamples_are_no_way_where_left_out_episodes_were_missed(runs: dict[str, Path]) -> None:
    """That error is in no spread of resamples; of a log that has so many, more episodes can be set aside."""
    found = load_policy(runs["two"]).evaluate_offline(updates=10, repeats=5, store=False)
    (policy,) = found.policies
    repeats = np.stack([3.0 + 0.1 * np.array([-1.0, -1.0, 0.0, 1.0, 1.0]), np.zeros(5)], 1)
    sure = replace(policy, value=Estimate(3.0), why_not=(), missed=1.0)
    changes = {"policies": (sure,), "behaviour_value": Estimate(0.0), "behaviour_missed": 0.0, "repeats": repeats}
    made = replace(found, **changes)
    asked = next_estimates.AskedOffline("aside.csv", None, None, None, "last", None, stochastic=False)
    one = next_estimates.Estimated(Path("run"), "last", made, 50.0, RETURNS, "longer", SPLIT, of_log=40)
    (told,) = next_estimates.next_steps(one, asked)
    assert told.startswith(
        f"next: {SPLIT.command}  # not decided: some 20 episodes might show it, 10 do not: train anew on"
    )
    (told,) = next_estimates.next_steps(replace(one, of_log=20), asked)
    assert "--data MORE  # not decided; MORE: some 20 episodes" in told
    apart = repeats + np.array([[-1.0, 0.0], [-1.0, 0.0], [0.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    calm = replace(made, policies=(replace(sure, missed=0.0),), repeats=apart)
    (told,) = next_estimates.next_steps(replace(one, found=calm), asked)
    assert "--repeats 20  # not decided: more resamples narrow the interval" in told


def test_training_goes_on_from_the_newest_checkpoint(data_file: Path, tmp_path: Path) -> None:
    """Whichever was judged, and by whatever path: `resume` takes a run, and a budget beyond where it stands."""
    run = train(small_config(data_file, tmp_path, checkpoint_interval=10)).run.path
    for named, which in ((run, "last"), (run, 10), (run / "checkpoints" / "step-10", "last")):
        told = next_estimates._longer(named, load_policy(named, which))
        assert told == f"rl-training resume {run} --total-timesteps 40"
    assert manager.resume(run, total_timesteps=40).progress.steps == 40


def test_the_next_command_asks_for_the_same(runs: dict[str, Path]) -> None:
    found = load_policy(runs["two"]).evaluate_offline(updates=10, repeats=2, store=False)
    asked = next_estimates.AskedOffline(None, 5_000, 7, 0.9995, "last", [1, 0], stochastic=True)
    kept = "next: rl-training evaluate run --offline --repeats 7 --seeds 1,0 --stochastic "
    for reason, words in (
        (Doubt("it still moves", updates=9_000), "--gamma 0.9995 --updates 9000  "),
        (Doubt("it went away", nearer=True), "--gamma 0.998  "),
    ):
        refused = tuple(replace(policy, why_not=(reason,)) for policy in found.policies)
        one = next_estimates.Estimated(
            Path("run"), "last", replace(found, policies=refused, gamma=0.9995), own_gamma=0.9995
        )
        (told,) = next_estimates.next_steps(one, asked)
        assert told.startswith(kept + words)


def test_a_busy_machine(command: Any, runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (99.0, 0.0, 0.0), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    code, out, err = command("evaluate", runs["one"], "--offline", *QUICK, "--json")
    assert code == 0
    assert "busy" not in out
    assert err.startswith("note: the machine is busy (load 99.0 on 2 cores), which slows 2 threads")
    plan = command("train", "-c", "bc/pendulum", "--set", "threads=2", "--dry-run").out
    assert "note: the machine is busy" in plan


def test_a_busy_machine_is_told_of_before_anything_is_estimated(
    command: Any, runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (99.0, 0.0, 0.0))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    told: list[str] = []

    def stopped(*_: Any, **__: Any) -> Any:
        told.append(capsys.readouterr().err)
        raise ConfigError("stopped")

    monkeypatch.setattr("rl_training.experiment.offline_evaluation.fit_values", stopped)
    run = next(iter(runs.values()))
    command("evaluate", run, "--offline")
    assert told[0].startswith("note: the machine is busy (load 99.0 on 2 cores), which slows 2 threads")
    assert command("evaluate", run, "--offline", "--data", "nope.csv").err.startswith("error: nope.csv: no such file")


def test_a_discount_for_all(command: Any, runs: dict[str, Path]) -> None:
    told = json.loads(command("evaluate", *runs.values(), "--offline", *QUICK, "--gamma", 0.9, "--json").out)
    assert [run["gamma"] for run in told["runs"]] == [0.9, 0.9]


def test_the_help_has_the_defaults_and_bounds_of_the_settings() -> None:
    """The command line imports nothing heavy and so repeats them."""
    options = get_type_hints(judging.evaluate, include_extras=True)
    for name in ("updates", "repeats"):
        (option,) = options[name].__metadata__
        field = OfflineEvaluationConfig.model_fields[name]
        bounds = {type(bound).__name__.lower(): bound for bound in field.metadata}
        assert option.show_default == str(field.default)
        assert option.min == bounds["ge"].ge
        assert option.max == (bounds["le"].le if "le" in bounds else None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--offline", "--episodes", 3], "--episodes: plays episodes in an environment, and --offline has none"),
        (["--offline", "--env-id", "Pendulum-v1"], "--env-id: plays episodes"),
        (["--offline", "--video", "a.gif"], "--video: plays episodes"),
        (["--updates", 20], "--updates: is an option of --offline"),
        (["--data", "log.npz"], "--data: is an option of --offline"),
        (["--gamma", "0.9"], "--gamma: is an option of --offline"),
        (
            ["--offline", "--gamma", "1"],
            "gamma: 1 adds up whole episodes, which must all terminate, after much the same number of steps: 10 of 10"
            " are cut (a task that ends there: last_rows_are: termination); below 1, 0.999 counts some 1,000 steps",
        ),
        (["--offline", "--data", "nowhere.npz"], "nowhere.npz"),
        (["--offline", "--seeds", "9"], "9 is not in this run"),
        ([], "--offline` estimates from the data without one"),
    ],
)
def test_mistakes(words: list[Any], said: str, mistake: Any, runs: dict[str, Path]) -> None:
    assert said in mistake("evaluate", runs["one"], *words)


def test_data_with_names_of_their_own(mistake: Any, runs: dict[str, Path], tmp_path: Path) -> None:
    """evaluate has no place for columns: it says where there is one."""
    np.savez(tmp_path / "log.npz", x=np.zeros((9, 3)), u=np.zeros((9, 1)))
    said = mistake("evaluate", runs["one"], "--offline", *QUICK, "--data", "log.npz")
    assert "; --data is read as the run's own data are, so bring it into form: rl-training data convert log.npz" in said
    assert "say which columns" not in said


def test_what_columns_have_nothing_to_do_with_is_told_as_it_is() -> None:
    """By the kind of the error, whatever a file's name makes of its text."""
    odd = "columns.obs: no column ; say which columns hold them.npz: damaged"
    with pytest.raises(DataError, match="^" + re.escape(odd) + "$"), read_as_the_runs("--data", "log.npz"):
        raise DataError(odd)
    lacks = DataError("x.npz: lacks obs; name it; and so on")
    with pytest.raises(DataError, match=r"^x\.npz: lacks obs; --data is read as"), read_as_the_runs("--data", "x.npz"):
        raise lacks from ColumnsError("lacks obs; name it", "; name it")


def test_a_configuration_or_a_run_is_no_data(mistake: Any, runs: dict[str, Path], tmp_path: Path) -> None:
    """What is given in place of data is named, and so are the data that it names itself."""
    (tmp_path / "mine.yaml").write_text("algo: iql\ndataset:\n  source: file\n  path: logs/days\n")
    given = "mine.yaml: is a configuration, not data; the data that it names: logs/days; `rl-training data split -c"
    given += " mine.yaml -o train.npz held_out.npz` sets a part of them aside to train without and judge by"
    assert mistake("evaluate", runs["one"], "--offline", "--data", "mine.yaml") == f"error: {given}"
    assert mistake("report", runs["one"], "--held-out", "mine.yaml") == f"error: {given}"
    (tmp_path / "short.yml").write_text("algo: iql\ndataset: minari:a/b-v0\n")
    said = mistake("evaluate", runs["one"], "--offline", "--data", "short.yml")
    assert said.startswith("error: short.yml: is a configuration, not data; the data that it names: minari:a/b-v0; ")
    (tmp_path / "broken.yaml").write_text("algo: [\n")
    said = mistake("evaluate", runs["one"], "--offline", "--data", "broken.yaml")
    assert said.startswith("error: broken.yaml: is a configuration, not data; ")
    said = mistake("evaluate", runs["one"], "--offline", "--data", runs["one"])
    assert said.startswith(f"error: {runs['one']}: is a run, not data; it was trained on ")
    assert "columns: {" not in said


def test_arrays_in_memory(mistake: Any, dataset: Any, tmp_path: Path) -> None:
    path = train(small_config(None, tmp_path), dataset=dataset).run.path
    assert "--data FILE names the episodes" in mistake("evaluate", path, "--offline")


def test_report_and_card(command: Any, runs: dict[str, Path], tmp_path: Path) -> None:
    command("evaluate", runs["two"], "--offline", *QUICK)
    command("report", runs["two"], "-o", "page.html", "--no-data")
    page = (tmp_path / "page.html").read_text()
    assert "Without a simulator: fitted Q evaluation" in page
    assert "10 episodes of" in page
    told = command("export", runs["two"], "-o", "policy.pt2", "--format", "torch").out.splitlines()[-1]
    card = json.loads((tmp_path / "policy.pt2.json").read_text())
    assert told == f"quality: {quality(card, runs['two'], 'last')}"
    assert "never evaluated" not in told
    assert card["offline_evaluation"]["seed"] == 0
    estimate = {"value": 1.5, "low": 1.0, "high": 2.0, "probability": 0.75}
    trusted = card["offline_evaluation"] | {"value": estimate, "improvement": estimate}
    text = " ".join(hub.page(card | {"offline_evaluation": trusted}, "me/policy").split())
    assert "value 1.5 (1 to 2), an improvement of 1.5 (1 to 2) over the behaviour with probability 0.75" in text
    doubted = trusted | {"value": None, "not_trusted_because": ["so few"]}
    assert "not to be trusted, because so few." in hub.page(card | {"offline_evaluation": doubted}, "me/policy")


def test_a_trusted_estimate_stays_and_leads_the_page(command: Any, data_file: Path, tmp_path: Path) -> None:
    """A newer refusal of the same weights hides it only where it was made as thoroughly; refusals are said once."""
    path = train(small_config(data_file, tmp_path, seed=[0, 1])).run.path
    command("report", path, "-o", "one.html", "--no-data")
    assert "could not be judged: there was no simulator" in (tmp_path / "one.html").read_text()
    command("evaluate", path, "--offline", *QUICK)
    stored = path / "offline_evaluations.jsonl"
    record = json.loads(stored.read_text())
    for policy in record["policies"]:
        policy |= {"value": None, "improvement": None, "not_trusted_because": ["so few"]}
    refused = record | {"value": None, "improvement": None}
    stored.write_text(json.dumps(refused) + "\n")
    command("report", path, "-o", "two.html", "--no-data")
    page = (tmp_path / "two.html").read_text()
    assert "There is no reliable estimate of <b>run</b> yet: so few." in page
    first, second = record["policies"]
    mixed = [first, second | {"not_trusted_because": ["so <far>, try --gamma 0.9"]}]
    stored.write_text(json.dumps(refused | {"policies": mixed}) + "\n")
    command("report", path, "-o", "both.html", "--no-data")
    told = 'seed 0: so few; seed 1: so &lt;far&gt;, try <span class="piece">--gamma</span> 0.9.'
    assert f"no reliable estimate of <b>run</b> yet: {told}" in (tmp_path / "both.html").read_text()
    assert page.count("Not to be trusted, because") == page.count("seeds 0 and 1</b>: so few</li>") == 1
    assert "--offline` estimates from the data" not in page
    gain = {"value": 1.5, "low": 1.0, "high": 2.0, "probability": 0.75}
    sound = [one | {"value": gain, "improvement": gain, "not_trusted_because": []} for one in record["policies"]]
    trusted = record | {"value": gain, "improvement": gain, "policies": sound}
    stored.write_text("".join(json.dumps(one) + "\n" for one in (trusted, refused)))
    command("report", path, "-o", "again.html", "--no-data")
    gained = f"+1.50 (1.00 to 2.00) over the behaviour, discounted by {record['gamma']:g}"
    told = f"an older estimate ({gained}) is contradicted: made again as thoroughly, it was refused"
    lead, page = (tmp_path / "again.html").read_text().split("<main>")
    assert f"yet: so few; {told}." in lead
    assert f"</b>: {told}.</p>" in page
    out = command("export", path, "-o", "again.pt2", "--format", "torch").out
    assert f"quality: unknown: there is no reliable estimate, because so few; {told}" in out
    trial = refused | {"repeats": 1}
    stored.write_text("".join(json.dumps(one) + "\n" for one in (trusted, trial)))
    command("report", path, "-o", "three.html", "--no-data")
    page = (tmp_path / "three.html").read_text()
    lead = page.split("<main>")[0]
    new, old = alike(1.5, record["behaviour"]["value"]["value"])
    before = (
        f"<b>run</b> is estimated to return <b>{new}</b> instead of the recorded behaviour’s <b>{old}</b> per episode"
    )
    share = 1.5 / abs(record["behaviour"]["value"]["value"])
    gained = f"1.50 more, or {share:.{0 if share >= 0.1 else 1}%} (95% interval 1.00 to 2.00 more; "
    assert (
        f'{before}: {gained}<a href="#estimate-0">Table 1</a>). The interval excludes zero: an improvement is' in lead
    )
    taken = "<code>export</code> and <code>predict</code> take seed 0, whose own improvement is 1.5"
    assert f"These are the mean of 2 seeds; {taken}" in lead
    assert "The probability of an improvement is 0.75." in lead
    assert "Nobody has tried the policy: it is an estimate" in lead
    assert "on the episodes that it was trained on" in lead
    assert "refused (1)" in page
    assert page.count("seeds 0 and 1, on pendulum.npz, discounted by 0.99, after 20 updates</b>: so few</li>") == 1
    out = command("export", path, "-o", "policy.pt2", "--format", "torch", "--member", 0).out
    assert "estimated from the data: value 1.5" in out
    doubtful = trusted | {"improvement": gain | {"low": -1.0}}
    stored.write_text(json.dumps(doubtful) + "\n")
    command("report", path, "-o", "four.html", "--no-data")
    assert "zero: no improvement is shown." in (tmp_path / "four.html").read_text().split("<main>")[0]
    card = json.loads((tmp_path / "policy.pt2.json").read_text())["offline_evaluation"]
    assert card["cautions"][-1] == "a newer estimate was refused, because so few"


@pytest.fixture
def estimated(command: Any, data_file: Path, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """A run of three seeds, and a record of it: seed 1 is shown to improve, seed 2 refused, their mean not shown to."""
    path = train(small_config(data_file, tmp_path, seed=[0, 1, 2])).run.path
    command("evaluate", path, "--offline", *QUICK)
    record = json.loads((path / "offline_evaluations.jsonl").read_text())
    gains = [{"value": 1.5, "low": low, "high": 4.0, "probability": 0.75} for low in (-1.0, 0.5, -0.5)]
    sound = [one | {"value": gain, "improvement": gain} for one, gain in zip(record["policies"], gains, strict=True)]
    for one, why in zip(sound, ([], [], ["so few"]), strict=True):
        one |= {"not_trusted_because": why}
    return path, record | {"value": gains[2], "improvement": gains[2], "policies": sound}


def test_refused_seeds_are_not_passed_over(
    command: Any, estimated: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of how many seeds a mean is, and what holds for one alone."""
    path, record = estimated
    (path / "offline_evaluations.jsonl").write_text(json.dumps(record) + "\n")
    command("report", path, "-o", "page.html", "--no-data")
    lead, page = (tmp_path / "page.html").read_text().split("<main>")
    assert "Estimated from 10 episodes of pendulum.npz alone." in lead
    alone = 'whose own improvement is 1.50 (95% interval <span class="piece">0.50 to 4.00</span>)'
    taken = f"<code>export</code> and <code>predict</code> take seed 1, {alone}"
    assert f"These are the mean of 2 of 3 seeds; {taken}; the estimate of seed 2 was refused." in lead
    assert "The probability of an improvement is 0.75. By itself, 1 of 3 seeds (seed 1) is shown to be better." in lead
    assert "mean of 2 of 3 seeds" in page
    drawn = page.split("<b>Improvement over the behaviour</b>")[0].rsplit("<svg", 1)[1]
    names = re.findall(r'class="name"[^>]*>([^<]*)<', drawn)
    assert [name.split(", ")[1] for name in names] == ["seed 0", "seed 1", "mean of 2 of 3 seeds"]
    assert drawn.count('class="rule"') == len(names)  # where nothing is gained, beside every bar
    said = iter([[Doubt("so few")], [], []] * 2)
    monkeypatch.setattr(offline_evaluation, "doubts", lambda *_: next(said))
    assert "  mean of 2 of 3 seeds  " in command("evaluate", path, "--offline", *QUICK).out


@pytest.mark.parametrize(("algo", "setting"), [("iql", "beta=1"), ("td3_bc", "alpha=1"), ("bc", None)])
def test_after_a_policy_that_goes_too_far_a_closer_one_is_trained(
    algo: str, setting: str | None, command: Any, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offline_evaluation, "doubts", lambda *_: [Doubt("it goes too far", closer=True)])
    path = train(small_config(data_file, tmp_path / "runs", algo, name="far")).run.path
    (path.parent / "far-closer").mkdir()
    following = [line for line in command("evaluate", path, "--offline", *QUICK).out.splitlines() if "next:" in line]
    if setting is None:
        assert not [line for line in following if "closer" in line]
        return
    (line,) = following
    typed, _, why = line.partition("next: rl-training ")[2].partition("  # ")
    assert why == "stays closer to the data; then judge that run by the same episodes"
    assert typed.endswith(f"/far/config.yaml --set algo_kwargs.{setting} --name far-closer1")
    assert command(*shlex.split(typed), "--runs-dir", path.parent, "-q").code == 0


def test_an_estimate_of_first_steps_is_told_as_one(
    command: Any, estimated: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """By the page, the card and the terminal, and that one that looks further ahead was refused."""
    path, record = estimated
    away = [one | {"value": None, "improvement": None, "not_trusted_because": ["so far"]} for one in record["policies"]]
    near = record | {"gamma": 0.95, "behaviour": record["behaviour"] | {"steps": 96.0}}
    records = (record | {"value": None, "improvement": None, "policies": away}, near)
    (path / "offline_evaluations.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    command("report", path, "-o", "page.html", "--no-data")
    lead = (tmp_path / "page.html").read_text().split("<main>")[0]
    assert "over the first 20 or so of 96 steps of an episode: 1.50 more" in lead
    assert "Discounted by 0.95, <b>run</b> is estimated" in lead
    told = "It does not tell which is better over whole episodes. An estimate that looks further ahead, discounted by"
    assert told in lead
    out = command("export", path, "-o", "policy.pt2", "--format", "torch", "--member", 1).out
    assert "better than the behaviour that recorded the data over the first 20 or so of 96 steps of an episode:" in out
    assert "; an estimate that looks further ahead was refused" in out
    card = json.loads((tmp_path / "policy.pt2.json").read_text())["offline_evaluation"]
    assert card["cautions"][-1] == "an estimate that looks further ahead was refused, because so far"
    whole = record | {"gamma": 1.0}
    again = whole | {"value": None, "improvement": None, "policies": away}
    (path / "offline_evaluations.jsonl").write_text("".join(json.dumps(one) + "\n" for one in (whole, again, near)))
    out = command("export", path, "-o", "policy.pt2", "--format", "torch", "--member", 1, "--force").out
    assert "; an estimate of whole episodes was refused" in out  # one that was trusted until it was made again


def test_estimates_that_disagree_decide_nothing(
    command: Any, estimated: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """On the page, in the card and in the terminal: the newest does not hide what a more thorough one says."""
    path, record = estimated

    def gained(gamma: float, value: float, low: float, high: float) -> dict[str, Any]:
        gain = {"value": value, "low": low, "high": high, "probability": 0.95}
        made = [one | {"value": gain, "improvement": gain, "not_trusted_because": []} for one in record["policies"]]
        return record | {"gamma": gamma, "value": gain, "improvement": gain, "policies": made}

    records = (gained(0.99, 53.6, -24.3, 131.6), gained(1.0, 128.7, 22.0, 235.4))
    (path / "offline_evaluations.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    agree = "both estimates point to an improvement; only the undiscounted one excludes zero"
    each = "undiscounted +128.7 (22.0 to 235.4); discounted by 0.99 +53.6 (-24.3 to 131.6)"
    told = f"{agree}: {each}"
    command("report", path, "-o", "page.html", "--no-data")
    lead = (tmp_path / "page.html").read_text().split("<main>")[0]
    assert f"{agree.capitalize()}." in lead
    assert f"Improvements per episode (95% intervals): {each}." in lead
    assert "The estimates passed their checks, but one alone is no proof" in lead
    assert "Try it" not in lead
    out = command("export", path, "-o", "policy.pt2", "--format", "torch", "--member", 1).out
    assert f"quality: not decided whether better than the behaviour that recorded the data: {told}" in out
    assert json.loads((tmp_path / "policy.pt2.json").read_text())["offline_evaluation"]["disagreement"] == told


def test_weights_that_have_been_trained_on(
    command: Any, estimated: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    path, record = estimated
    (path / "offline_evaluations.jsonl").write_text(json.dumps(record) + "\n")
    command("resume", path, "--total-timesteps", 30)
    command("report", path, "-o", "page.html", "--no-data")
    lead = (tmp_path / "page.html").read_text().split("<main>")[0]
    assert "This is the policy after 20 of 30 updates." in lead


def test_the_newest_trusted_of_each_data_and_every_refusal(
    command: Any, estimated: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    path, record = estimated
    aside = {"title": "aside.npz", "fingerprint": "a", "episodes": 12, "transitions": 90, "trained_on": False}
    away = [one | {"value": None, "not_trusted_because": ["it went away"]} for one in record["policies"]]
    refused = record | {"value": None, "improvement": None, "policies": away, "updates": 1_500}
    others = [
        record | {"updates": 7_000},
        record | {"data": aside, "updates": 6_000},
        refused | {"data": aside},
        refused,
    ]
    (path / "offline_evaluations.jsonl").write_text("".join(json.dumps(one) + "\n" for one in [record, *others]))
    command("report", path, "-o", "page.html", "--no-data")
    lead, page = (tmp_path / "page.html").read_text().split("<main>")
    assert "12 episodes of aside.npz, 2 resamples of them, 6,000 updates each" in page
    assert "10 episodes of pendulum.npz, 2 resamples of them, 7,000 updates each" in page
    assert "20 updates each" not in page
    for title in ("aside.npz", "pendulum.npz"):
        assert page.count(f"seeds 0, 1 and 2, on {title}, discounted by 0.99, after 1,500 updates</b>") == 1
    assert page.count(": it went away</li>") == 1  # the same reason on both
    assert "which flatters it" not in lead  # other episodes say more


def test_what_runs_share_stands_once(
    command: Any, estimated: tuple[Path, dict[str, Any]], data_file: Path, tmp_path: Path
) -> None:
    """Recorded and behaviour in one row for all runs that were held to them, and advice below all that it is about."""
    path, record = estimated
    (path / "offline_evaluations.jsonl").write_text(json.dumps(record) + "\n")
    other = train(small_config(data_file, tmp_path, seed=[0, 1, 2], name="other")).run.path
    doubted = [one | {"not_trusted_because": ["so few; record more"]} for one in record["policies"]]
    refused = record | {"value": None, "improvement": None, "policies": doubted}
    (other / "offline_evaluations.jsonl").write_text(json.dumps(refused) + "\n")
    command("report", path, other, "-o", "page.html", "--no-data")
    lead, page = (tmp_path / "page.html").read_text().split("<main>")
    assert page.count("<span>behaviour</span>") == page.count("<span>recorded</span>") == 1
    assert page.count("10 episodes of pendulum.npz") == 1
    assert "There is no reliable estimate of other." in lead
    assert page.count("<p>Record more.</p>") == 1
    longer = refused | {"updates": 77}  # other fits: not to be held to the same
    (other / "offline_evaluations.jsonl").write_text(json.dumps(longer) + "\n")
    command("report", path, other, "-o", "page.html", "--no-data", "--force")
    assert (tmp_path / "page.html").read_text().count("<span>behaviour</span>") == 2


def test_runs_that_were_never_evaluated_are_not_said_to_be_refused(
    command: Any, estimated: tuple[Path, dict[str, Any]], data_file: Path, tmp_path: Path
) -> None:
    path, _ = estimated
    other = train(small_config(data_file, tmp_path, name="other")).run.path
    command("report", path, other, "-o", "page.html", "--no-data")
    lead = (tmp_path / "page.html").read_text().split("<main>")[0]
    assert f"no reliable estimate of <b>{path.name}</b> yet: " in lead
    assert "Nothing was estimated of other yet (" in lead


def test_a_forged_record_harms_no_page(command: Any, data_file: Path, tmp_path: Path) -> None:
    path = train(small_config(data_file, tmp_path)).run.path
    odd = {"step": 20, "policies": [3, {"seed": "<b>", "value": {"value": "x"}, "not_trusted_because": ["<i>"]}]}
    (path / "offline_evaluations.jsonl").write_text(json.dumps(odd) + "\n" + json.dumps({"step": 20, **odd}) + "\n")
    assert command("report", path, "-o", "page.html", "--no-data").code == 0
    page = (tmp_path / "page.html").read_text()
    assert "<i>" not in page
    assert "&lt;i&gt;" in page
    code, _, err = command("export", path, "-o", "policy.pt2", "--format", "torch")
    assert (code, err.count("\n")) == (2, 1)
    assert "holds what no evaluation writes" in err


def test_training_points_to_it(command: Any, data_file: Path, tmp_path: Path) -> None:
    words = ("--set", "algo=bc", "--set", "total_timesteps=1", "--set", "env_id=null", "--set", f"dataset={data_file}")
    out = command("train", "-c", "bc/pendulum", *words, "--name", "a", "--quiet").out
    assert "no simulator: rl-training evaluate runs/a --offline" in out
    plan = command("train", "-c", "bc/pendulum", *words, "--dry-run").out
    assert "no environment; afterwards `rl-training evaluate RUN --offline`" in plan


def test_stored_estimates_can_be_forgotten(
    command: Any, mistake: Any, data_file: Path, dataset: TransitionDataset, tmp_path: Path
) -> None:
    """All of them or those on one file; the records stay beside as they were."""
    run = train(small_config(data_file, tmp_path / "runs", name="own")).run.path
    assert "runs/own: has no stored estimate to forget" in mistake("evaluate", "runs/own", "--offline", "--forget")
    dataset.save(tmp_path / "other.npz")
    for more in ((), ("--data", "other.npz"), ("--data", "other.npz")):
        assert command("evaluate", "runs/own", "--offline", *QUICK, *more).code == 0
    stored = run / "offline_evaluations.jsonl"
    before = stored.read_bytes()
    code, out, _ = command("evaluate", "runs/own", "--offline", "--forget", "--data", "other.npz")
    assert (code, out.startswith("runs/own: forgot 2 estimates on other.npz; the records as they were: ")) == (0, True)
    assert stored.read_bytes() == before.splitlines(keepends=True)[0]
    assert (run / "offline_evaluations.jsonl.aside").read_bytes() == before
    assert "has no stored estimate on other.npz" in mistake(
        "evaluate", "runs/own", "--offline", "--forget", "--data", "other.npz"
    )
    assert command("evaluate", "runs/own", "--offline", "--forget").out.startswith("runs/own: forgot 1 estimate;")
    assert stored.read_bytes() == b""
    assert command("runs").code == command("report", "runs/own", "--no-data").code == 0


def test_of_several_runs_all_are_forgotten_or_none(
    command: Any, mistake: Any, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (train(small_config(data_file, tmp_path / "runs", name=name)).run.path for name in "ab")
    command("evaluate", first, "--offline", *QUICK)
    before = (first / "offline_evaluations.jsonl").read_bytes()
    assert "runs/b: has no stored estimate to forget" in mistake("evaluate", first, second, "--offline", "--forget")
    assert (first / "offline_evaluations.jsonl").read_bytes() == before
    monkeypatch.chdir(data_file.parent)  # where the file has a shorter name
    out = command("evaluate", first, "--offline", "--forget", "--data", f"./{data_file.name}").out
    assert "forgot 1 estimate on" in out


def test_a_path_stands_for_the_data_that_lie_there(
    command: Any, mistake: Any, data_file: Path, dataset: TransitionDataset, tmp_path: Path
) -> None:
    run = train(small_config(data_file, tmp_path / "runs", name="own")).run.path
    half, rest = (dataset.select(np.flatnonzero((dataset.episode_ids < 5) == first)) for first in (True, False))
    half.save(tmp_path / "aside.npz")
    (tmp_path / "elsewhere").mkdir()
    rest.save(tmp_path / "elsewhere" / "aside.npz")
    half.save(tmp_path / "elsewhere" / "copy.npz")
    forget = ("evaluate", "runs/own", "--offline", "--forget", "--data")
    assert command("evaluate", "runs/own", "--offline", *QUICK, "--data", "aside.npz").code == 0
    for other in ("elsewhere/aside.npz", "elsewhere/gone.npz", "elsewhere/../other.npz"):
        none = f"has no stored estimate on {other} to forget (there are some on aside.npz); nothing was changed"
        assert none in mistake(*forget, other)
    assert "forgot 1 estimate on" in command(*forget, "elsewhere/copy.npz").out
    assert command("evaluate", "runs/own", "--offline", *QUICK, "--data", "aside.npz").code == 0
    (tmp_path / "aside.npz").unlink()
    assert "forgot 1 estimate on" in command(*forget, "./aside.npz").out
    assert run.exists()


def test_damaged_lines_are_no_reason_not_to_forget(command: Any, data_file: Path, tmp_path: Path) -> None:
    run = train(small_config(data_file, tmp_path / "runs", name="own")).run.path
    command("evaluate", "runs/own", "--offline", *QUICK)
    stored = run / "offline_evaluations.jsonl"
    with stored.open("ab") as damaged:
        damaged.write(b"\xff\xfe not a record\n")
    code, out, err = command("evaluate", "runs/own", "--offline", "--forget")
    assert (code, err, out.startswith("runs/own: forgot 1 estimate;")) == (0, "", True)
    assert stored.read_bytes() == b"\xff\xfe not a record\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--forget"], "--forget: is an option of --offline; add it"),
        (["--offline", "--forget", "--gamma", "0.9"], "--gamma: is for an estimate, and --forget makes none"),
        (["--offline", "--forget", "--which", "best"], "--which: is for an estimate, and --forget makes none"),
        (["--offline", "--forget", "--seeds", "0"], "--seeds: is for an estimate, and --forget makes none"),
        (["--offline", "--forget", "--stochastic"], "--stochastic: is for an estimate, and --forget makes none"),
    ],
)
def test_mistakes_of_forgetting(words: list[str], said: str, mistake: Any, runs: dict[str, Path]) -> None:
    assert said in mistake("evaluate", runs["one"], *words)


def test_export_and_predict_take_the_seed_that_was_trusted(
    command: Any, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = train(small_config(data_file, tmp_path / "runs", name="own", seed=[4, 2])).run.path
    plain = offline_evaluation.doubts
    monkeypatch.setattr(
        offline_evaluation, "doubts", lambda fitted, column, *more: [] if column else [Doubt("it is odd")]
    )
    told = command("evaluate", "runs/own", "--offline", *QUICK).out
    assert "\n  export and predict take seed 2: its estimate is trusted, that of seed 4 was refused\n" in told
    monkeypatch.setattr(offline_evaluation, "doubts", plain)
    refused = command("evaluate", "runs/own", "--offline", *QUICK, "--gamma", 0.9).out
    assert "take seed 2, by another estimate, which is trusted (discounted by 0.99 on pendulum.npz)\n" in refused
    said = command("export", "runs/own", "-o", "a.pt2").out
    why = "seed 2: its estimate is trusted, that of seed 4 was refused"
    assert "a.pt2: bc seed 2, " in said
    assert f"{why} (--seed names another)\n" in said
    assert "its estimate" not in command("export", "runs/own", "-o", "b.pt2", "--seed", 4).out
    assert command("predict", "runs/own", "--obs", "1,0,0").err == f"note: {why}\n"
    assert run.exists()


def test_the_page_compares_runs_as_the_command_does(
    command: Any, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offline_evaluation, "doubts", lambda *_: [])
    one, two = (
        train(small_config(data_file, tmp_path, name=name, seed=seed)).run.path
        for name, seed in (("one", 1), ("two", 2))
    )
    (told,) = json.loads(command("evaluate", one, two, "--offline", *QUICK, "--json").out)["improvement"]
    records = {run.name: json.loads((run / "offline_evaluations.jsonl").read_text()) for run in (one, two)}
    better, worse = (records[Path(told[name]).name] for name in ("run", "over"))
    gain, chance = gain_between(better, worse) or (None, None)
    assert gain is not None
    assert (gain.to_json(), chance) == ({name: told[name] for name in ("value", "low", "high")}, told["probability"])
    other = gain_between(worse, better)
    assert other is not None
    assert other[0].value == -gain.value
    command("report", one, two, "-o", "page.html", "--no-data")
    assert "One run against another" in (tmp_path / "page.html").read_text()
    monkeypatch.setattr(without_simulator, "gain_between", lambda *_: (Estimate(1.0, 0.5, 1.5), 0.99))
    for shown in (True, False):
        monkeypatch.setattr(without_simulator, "is_better", lambda _, shown=shown: shown)
        command("report", one, two, "-o", "page.html", "--no-data", "--force")
        assert ("Of one and two, neither is shown" in (tmp_path / "page.html").read_text()) != shown
    for changes in (
        {"asked": {"seed": 1, "updates": 5_000}},
        {"gamma": 0.5},
        {"of_every_repeat": None},
        {"asked": None},
    ):
        assert gain_between(better, worse | changes) is None


def test_train_ends_with_costs_where_the_data_are_costs(command: Any, tmp_path: Path) -> None:
    """As `evaluate --offline` and the report have them."""
    lines = [f"{np.sin(row):.3f},{np.cos(row):.3f},{row // 4 + 1},{row % 4}" for row in range(48)]
    (tmp_path / "log.csv").write_text("\n".join(["x,u,eur,t", *lines]) + "\n")
    columns = "{obs: x, actions: u, rewards: eur, step: t}"
    section = f"{{source: file, path: log.csv, columns: {columns}, rewards_are: costs}}"
    (tmp_path / "c.yaml").write_text(f"algo: bc\ntotal_timesteps: 2\ndataset: {section}\n")
    out = command("train", "-c", "c.yaml", "--name", "own", "--quiet").out
    assert "  recorded cost per episode  26.0 eur\n" in out
    assert "return" not in out
    assert (
        "an episode cost 26.0 in 4 steps on average, undiscounted, with the last rows of 12 cut episodes"
        in command("evaluate", "runs/own", "--offline", *QUICK).out
    )


def test_what_is_not_to_be_trusted_is_said_once_for_all_seeds_it_holds_for(runs: dict[str, Path]) -> None:
    """With the span of its numbers; what to do about several reasons stands once below them."""
    found = load_policy(runs["one"]).evaluate_offline(updates=10, repeats=2, store=False)
    then = "it is diverging; more updates will not help"
    whys = (
        [f"fits gave very different values (± 127.9, more than ± 14.8); {then}", f"the value moved by 12.0; {then}"],
        [f"fits gave very different values (± 16.7, more than ± 14.8); {then}", "there are only 5; record more"],
    )
    refused = [replace(one, why_not=tuple(map(Doubt, why))) for one, why in zip(found.policies, whys, strict=True)]
    made = replace(found, policies=tuple(refused))
    assert list(evaluating_offline._doubted(made)) == [
        "seeds 4, 2 are not to be trusted, because fits gave very different values (± 16.7 to 127.9, more than ± 14.8)",
        "seed 4 is not to be trusted, because the value moved by 12.0",
        "seed 2 is not to be trusted, because there are only 5; record more",
        f"seeds 4, 2: {then}",
    ]


def test_the_sign_of_rewards_is_explained_where_something_speaks_of_them(runs: dict[str, Path]) -> None:
    found = load_policy(runs["two"]).evaluate_offline(updates=10, repeats=2, store=False)
    for why, told in (((), False), ((Doubt("it moved by 12.0"),), True)):
        made = replace(found, policies=tuple(replace(one, why_not=why) for one in found.policies))
        one = next_estimates.Estimated(Path("run"), "last", made, shown=Shown(True, "EUR"))
        assert ("notes speak of rewards" in "\n".join(evaluating_offline._lines(one))) == told


def test_the_last_and_the_best_cost_of_training() -> None:
    shown = Shown(True, "eur")
    assert training._score({"step": 1_000, "return_mean": -23.4}, "updates", shown) == "23.4 eur (update 1,000)"
    assert training._score({"step": 1_000, "return_mean": -23.4}, "updates", RETURNS) == "-23.4 (update 1,000)"
    assert training._score(None, "updates", shown) == ""
