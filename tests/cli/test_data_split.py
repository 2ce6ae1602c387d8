"""`rl-training data split`: whole episodes, each on one side, the same for the same seed; both files or none."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.cli import data_split
from rl_training.data import TransitionDataset, infer_spaces
from rl_training.data.column_names import names_of
from rl_training.data.few_episodes import to_judge_by
from rl_training.data.formats import writers
from rl_training.wording import readable

COLUMNS = (
    "--columns",
    "obs=x,y",
    "--columns",
    "actions=u",
    "--columns",
    "rewards=cost",
    "--columns",
    "episode_ids=run",
)
COLUMNS += ("--columns", "end_reasons=why", "--end-reasons", "crash=termination", "--end-reasons", "late=truncation")
READING = (*COLUMNS, "--rewards-are", "costs", "--action-low", "-2", "--action-high", "2")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Eight runs of five rows, costs and reasons in words; `x` is the number of the run."""
    lines = ["run,x,y,u,cost,why,note"]
    for i in range(40):
        why = ("crash" if i // 5 % 2 else "late") if i % 5 == 4 else ""
        lines.append(f"{i // 5},{i // 5},{i},0.5,{1 + i % 3},{why},-")
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def runs_in(path: str) -> list[int]:
    return sorted({int(value) for value in TransitionDataset.load(path).obs[:, 0]})


def test_says_what_went_where(command: Any, log: Path) -> None:
    code, out, err = command("data", "split", "log.csv", *READING, "-o", "train.npz", "aside.npz")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "log.csv: CSV, separated by commas"
    assert any(line.startswith("to train on: 6 episodes, 30 rows, ") for line in lines)
    assert any(line.startswith("set aside: 2 episodes, 10 rows, ") for line in lines)
    told = [line.rpartition(", ")[2] for line in lines if line.startswith(("to train on: ", "set aside: "))]
    parts = [-TransitionDataset.load(name).episode_returns().mean() for name in ("train.npz", "aside.npz")]
    assert told == [f"mean cost {readable(cost)}" for cost in parts]  # in the file's own sign
    assert [line.split()[1] for line in lines if line.startswith("written: ")] == ["train.npz", "aside.npz"]
    assert runs_in("train.npz") + runs_in("aside.npz") != list(range(8))  # drawn, not the last ones
    assert sorted(runs_in("train.npz") + runs_in("aside.npz")) == list(range(8))


def test_costs_are_told_in_their_own_sign_by_check_before_and_after(command: Any, log: Path) -> None:
    command("data", "convert", log, "whole.npz", *READING)
    for source, options in ((log, READING), ("whole.npz", ())):
        out = command("data", "check", source, *options).out
        assert re.search(r"^  step cost +from 1 to 3, mean 1\.98$", out, re.MULTILINE)
        assert re.search(r"^  episode cost +mean 9\.88 ", out, re.MULTILINE)
        facts = json.loads(command("data", "check", source, *options, "--json").out)["facts"]
        assert (facts["costs"], facts["rewards"][0], facts["returns"]["mean"]) == (True, -3.0, -9.875)


@pytest.mark.parametrize(
    "targets", [("a.npz", "b.csv"), ("a.hdf5", "b/"), ("a.parquet", "b.parquet")], ids=lambda pair: " ".join(pair)
)
def test_what_is_written_needs_no_options(command: Any, log: Path, targets: tuple[str, str]) -> None:
    assert command("data", "split", log, *READING, "-o", *targets).code == 0
    command("data", "convert", log, "whole.npz", *READING)
    whole = TransitionDataset.load("whole.npz")
    parts = [TransitionDataset.load(target) for target in targets]
    assert sum(len(part) for part in parts) == len(whole)
    for part in parts:
        rows = part.obs[:, 1].astype(int)
        for name in ("obs", "actions", "rewards", "terminations", "truncations"):
            np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[rows])
    assert all(part.bounds is not None for part in parts)


@pytest.mark.parametrize("ending", [".csv", ".npz", ".hdf5", ".parquet", "/"])
def test_parts_keep_the_bounds_of_the_whole_log(command: Any, tmp_path: Path, ending: str) -> None:
    """One run alone reaches 21, another 100; all others stay between: no part may take its own extremes."""
    pytest.importorskip("pyarrow" if ending == ".parquet" else "numpy")
    rows = [f"{i // 5},{i},{(21, 100)[i // 5] if i in (2, 7) else 40 + i},1,{i // 5}" for i in range(60)]
    (tmp_path / "log.csv").write_text("\n".join(["x,y,u,reward,run", *rows]) + "\n")
    columns = ("--columns", "obs=x,y", "--columns", "actions=u", "--columns", "episode_ids=run")
    assert command("data", "split", "log.csv", *columns, "-o", f"a{ending}", f"b{ending}").code == 0
    parts = [TransitionDataset.load(f"{name}{ending}") for name in "ab"]
    for part in parts:
        spaces = infer_spaces(part)
        assert (spaces.action_low, spaces.action_high) == ((21.0,), (100.0,))
    assert any(part.actions.min() > 21 or part.actions.max() < 100 for part in parts)
    told = command("data", "info", f"a{ending}").out
    assert "bounds [21, 100] (the smallest and largest of the log" in " ".join(told.split())


def test_an_outlier_is_told_of_in_the_parts_too(command: Any, tmp_path: Path) -> None:
    """The bounds of the whole log are observed: an action far from all others is doubted, as it was in the log."""
    rows = [f"{i},{9000 if i == 7 else i % 13},1,{i // 10}" for i in range(400)]
    (tmp_path / "log.csv").write_text("\n".join(["x,u,reward,run", *rows]) + "\n")
    columns = ("--columns", "obs=x", "--columns", "actions=u", "--columns", "episode_ids=run")
    command("data", "split", "log.csv", *columns, "-o", "a.csv", "b.csv")
    found = {name: "far from all others" in command("data", "check", name).out for name in ("a.csv", "b.csv")}
    assert any(found.values())


def test_parquet_keeps_the_names_of_columns(command: Any, log: Path) -> None:
    pytest.importorskip("pyarrow")
    command("data", "split", log, *READING, "-o", "a.parquet", "b.parquet")
    command("data", "convert", "a.parquet", "c.parquet")
    for path in ("a.parquet", "b.parquet", "c.parquet"):
        data = TransitionDataset.load(path)
        assert [names_of(data, "obs", 2), names_of(data, "actions", 1)] == [["x", "y"], ["u"]]


def test_the_seed_decides(command: Any, log: Path) -> None:
    found = {}
    for seed in (0, 0, 1, 2, 3):
        command("data", "split", log, *READING, "--seed", seed, "--held-out", 0.5, "-o", "a.npz", "b.npz", "--force")
        held = tuple(runs_in("b.npz"))
        assert len(held) == 4
        assert found.setdefault(seed, held) == held
    assert len(set(found.values())) > 1


def test_one_episode_at_least_on_either_side(command: Any, log: Path) -> None:
    for share, count in ((0.001, 1), (0.999, 7)):
        command("data", "split", log, *READING, "--held-out", share, "-o", "a.npz", "b.npz", "--force")
        assert len(runs_in("b.npz")) == count


def test_as_json(command: Any, log: Path) -> None:
    out = command("data", "split", "log.csv", *READING, "-o", "a.npz", "b.npz", "--json").out
    told = json.loads(out)
    assert (told["path"], told["seed"]) == ("log.csv", 0)
    assert {key: told["train"][key] for key in ("path", "episodes", "rows")} == {
        "path": "a.npz",
        "episodes": 6,
        "rows": 30,
    }
    assert told["held_out"]["episodes"] == 2
    assert "columns not used: note" in told["notes"]
    code, out, _ = command("data", "split", "log.csv", *READING, "-o", "a.npz", "b.npz", "--json")
    assert (code, json.loads(out)["ok"]) == (2, False)


def test_as_a_configuration_says(command: Any, log: Path, tmp_path: Path) -> None:
    columns = "{obs: [x, y], actions: u, rewards: cost, episode_ids: run, end_reasons: why}"
    section = f"{{source: file, path: log.csv, columns: {columns}, rewards_are: costs,"
    section += " end_reasons: {crash: termination, late: truncation}}"
    (tmp_path / "my.yaml").write_text(f"algo: bc\ntotal_timesteps: 10\ndataset: {section}\n")
    assert command("data", "split", "-c", "my.yaml", "-o", "a.npz", "b.npz").code == 0
    assert (TransitionDataset.load("a.npz").rewards < 0).all()


@pytest.mark.parametrize("words", [("check", "log.csv"), ("split", "log.csv", "-o", "a.npz", "b.npz")])
def test_a_log_with_names_of_its_own_is_read_by_its_configuration(
    words: tuple[str, ...], mistake: Any, log: Path, tmp_path: Path
) -> None:
    """Which the error names: the very one that `init` wrote, or that there may be one."""
    told = mistake("data", *words)
    assert ", or give -c CONFIG, a configuration that says so; `rl-training init log.csv` proposes" in told
    section = "{source: file, path: other.csv, columns: {obs: [x, y]}}"
    (tmp_path / "config.yaml").write_text(f"algo: bc\ntotal_timesteps: 10\ndataset: {section}\n")
    (tmp_path / "broken.yaml").write_text("a: [")
    assert "give -c CONFIG" in mistake("data", *words)
    (tmp_path / "my.yaml").write_text((tmp_path / "config.yaml").read_text().replace("other.csv", "log.csv"))
    assert ", or give -c my.yaml, which says so, in place of the file" in mistake("data", *words)
    assert "-c my.yaml" not in mistake("data", "info", "log.csv")  # which has no -c


@pytest.mark.parametrize(("train", "aside"), [("a.npz", "b.npz"), ("a.csv", "b.csv"), ("a/", "b/")])
def test_says_how_to_go_on(train: str, aside: str, command: Any, log: Path, tmp_path: Path) -> None:
    test_as_a_configuration_says(command, log, tmp_path)
    out = command("data", "split", "-c", "my.yaml", "-o", train, aside, "--force").out
    then = f"then: rl-training train -c my.yaml --set dataset={train}\n"
    judged = f"rl-training evaluate RUN --offline --data {aside}"
    assert out.endswith(f"{then}      {judged}\n")
    out = command(*then.split()[2:], "--dry-run").out
    assert f"afterwards `{judged.removesuffix('/')}`\n" in out
    mean = float(-TransitionDataset.load(train).episode_returns().mean())
    assert f" episodes, mean cost {readable(mean)}" in out
    (tmp_path / aside).rename(tmp_path / "elsewhere")
    out = command(*then.split()[2:], "--name", "mine").out
    assert "evaluate runs/mine --offline --data FILE_SET_ASIDE  #" in out
    (tmp_path / "elsewhere").rename(tmp_path / aside)
    out = command("export", "mine", "-o", "p.onnx").out
    assert f"rl-training evaluate mine --offline --data {aside.removesuffix('/')}\n" in out


def test_without_a_configuration_init_comes_next(command: Any, log: Path) -> None:
    out = command("data", "split", "log.csv", *READING, "-o", "a.npz", "b.npz").out
    assert "then: rl-training init a.npz -o a.yaml\n      rl-training train -c a.yaml\n" in out
    assert command("init", "a.npz").code == 0


def test_mistakes(mistake: Any, command: Any, log: Path, tmp_path: Path) -> None:
    (tmp_path / "there.npz").write_text("mine")
    split = ("data", "split", "log.csv", *READING)
    assert "there.npz: exists already; --force replaces it" in mistake(*split, "-o", "a.npz", "there.npz")
    assert "must be two places" in mistake(*split, "-o", "a.npz", "a.npz")
    assert "must be two places" in mistake(*split, "-o", "a/", "a/b.npz")
    assert "is the source itself" in mistake(*split, "-o", "a.npz", "log.csv", "--force")
    for share in ("0", "1", "nan", "-0.5"):
        assert "must be a share between 0 and 1" in mistake(*split, "--held-out", share, "-o", "a.npz", "b.npz")
    assert "got 25%; write 0.25 (see" in mistake(*split, "--held-out", "25%", "-o", "a.npz", "b.npz")
    assert "give a dataset, or -c CONFIG" in mistake("data", "split", "-o", "a.npz", "b.npz")
    assert "a.txt: must end in" in mistake(*split, "-o", "a.txt", "b.npz")
    alone = "\n".join(["obs_0,action,reward,done", *(f"{i},0,1,{int(i == 9)}" for i in range(10))])
    (tmp_path / "one.csv").write_text(alone + "\n")
    assert "holds one episode" in mistake("data", "split", "one.csv", "-o", "a.npz", "b.npz")


def test_a_configuration_with_several_datasets(mistake: Any, tmp_path: Path) -> None:
    to = ("-o", "a.npz", "b.npz")
    for name, dataset in (
        ("mix", "{source: mixture, parts: [{dataset: old log.csv}, {dataset: new.npz}]}"),
        ("list", "[old.csv, new.npz]"),
        ("made", "{source: random, size: 100}"),
    ):
        (tmp_path / f"{name}.yaml").write_text(
            f"algo: bc\nenv_id: Pendulum-v1\ntotal_timesteps: 9\ndataset: {dataset}\n"
        )
    assert (
        "mix.yaml: its data are a mixture; split every part of it by itself, `rl-training data split 'old log.csv' -o"
        " 'old log_train.npz' 'old log_held_out.npz'`, and name what is to train on in its parts"
    ) in mistake("data", "split", "-c", "mix.yaml", *to)
    assert "check every part of it, `rl-training data check 'old log.csv'`" in mistake(
        "data", "check", "-c", "mix.yaml"
    )
    assert "list.yaml: dataset: must be one dataset; several are mixed: {source: mixture, parts: [{dataset:" in mistake(
        "data", "split", "-c", "list.yaml", *to
    )
    assert "nothing to split; another seed makes others" in mistake("data", "split", "-c", "made.yaml", *to)
    assert "mix.yaml: is a configuration, not data; -c mix.yaml splits the data it names" in mistake(
        "data", "split", "mix.yaml", *to
    )


def test_both_or_neither(mistake: Any, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(part: Any, target: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(writers._WRITERS, "hdf5", full)
    for first in ("a.npz", "a/"):
        assert "No space left" in mistake("data", "split", log, *READING, "-o", first, "b.hdf5")


def test_pieces_of_an_episode_stay_together(command: Any, tmp_path: Path) -> None:
    lines = ["run,obs,action,reward"]
    lines += [f"r{i // 10},{i // 10},0.5,{'' if i % 10 in (3, 6) else i % 7}" for i in range(80)]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    reading = ("--columns", "episode_ids=run", "--missing", "drop")
    for seed in range(3):
        code, out, _ = command("data", "split", "log.csv", *reading, "-o", "a.npz", "b.npz", "--seed", seed, "--force")
        assert code == 0
        assert "8 recorded episodes became 24 pieces, and returns are those of pieces" in out
        assert "set aside: 6 episodes (pieces of 2 recorded), 16 rows" in out
        assert not set(runs_in("a.npz")) & set(runs_in("b.npz"))


def test_a_policy_trained_on_a_written_csv_file_knows_the_names(command: Any, log: Path) -> None:
    out = command("data", "split", "log.csv", *READING, "-o", "train.csv", "aside.csv").out
    assert "  note: CSV has no place for bounds, names of columns: kept in train.csv-metadata.json, leave it" in out
    assert command("init", "train.csv", "--algo", "bc").code == 0
    changes = ("total_timesteps=2", "algo_kwargs.batch_size=4")
    short = [word for change in changes for word in ("--set", change)]
    assert command("train", "-c", "config.yaml", "--name", "a", *short).code == 0
    by_name = command("predict", "a", "--obs", "y=3,x=1")
    assert (by_name.code, by_name.out) == (0, command("predict", "a", "--obs", "1,3").out)
    assert "actions are u" in by_name.err
    command("data", "convert", "train.csv", "again.csv")
    again = TransitionDataset.load("again.csv")
    assert (names_of(again, "obs", 2), again.bounds) == (["x", "y"], TransitionDataset.load("train.csv").bounds)


def test_a_written_file_with_the_options_of_its_source(command: Any, mistake: Any, log: Path) -> None:
    command("data", "convert", "log.csv", "log.hdf5", *READING)
    columns = "{obs: [x, y], actions: u, rewards: cost, episode_ids: run, end_reasons: why}"
    section = (
        f"{{source: file, path: log.csv, columns: {columns}, end_reasons: {{crash: termination, late: truncation}}}}"
    )
    Path("config.yaml").write_text(f"algo: bc\ntotal_timesteps: 2\ndataset: {section}\n")
    told = mistake("train", "-c", "config.yaml", "--set", "dataset.path=log.hdf5")
    way = "log.hdf5 was written here from log.csv with its options applied: use `dataset: log.hdf5` (without columns,"
    assert way in told
    assert "end_reasons" in told.partition("(without")[2]


@pytest.mark.parametrize("name", ["train.csv", "train.parquet", "train.npz"])
def test_init_tells_what_a_written_file_keeps(command: Any, log: Path, name: str) -> None:
    command("data", "convert", "log.csv", name, *READING)
    code, out, _ = command("init", name)
    assert code == 0
    note = "the file keeps names of obs (x, y), names of actions (u), bounds of actions (-2 to 2)"
    assert note in " ".join(out.split())
    assert f"  # Note: {note}." in Path("config.yaml").read_text()


def test_where_all_terminations_went(command: Any, tmp_path: Path) -> None:
    rows = [f"{run},{run}.5,{step}.25,0.{step},{int((run, step) == (2, 4))}" for run in range(8) for step in range(5)]
    (tmp_path / "log.csv").write_text("\n".join(["episode,obs,rewards,actions,terminations", *rows]) + "\n")
    sides = set()
    for seed in range(12):
        out = command("data", "split", "log.csv", "--seed", seed, "--force", "-o", "a.npz", "b.npz").out
        trained = TransitionDataset.load("a.npz").terminations.any()
        where = "to train on: what is judged by the other" if trained else "set aside: a policy trained on the other"
        assert f"  warning: the only termination is in the part {where} part" in out
        sides.add(bool(trained))
    assert sides == {True, False}


@pytest.mark.parametrize("seed", range(6))
def test_terminations_are_shared_out(seed: int, command: Any, tmp_path: Path) -> None:
    """A few rare ends, of which chance would often put most on one side."""
    rows = [
        f"{run},{run}.5,{step}.25,0.{step},{int(run % 5 == 2 and step == 4)}" for run in range(40) for step in range(5)
    ]
    (tmp_path / "log.csv").write_text("\n".join(["episode,obs,rewards,actions,terminations", *rows]) + "\n")
    command("data", "split", "log.csv", "--seed", seed, "--force", "-o", "a.npz", "b.npz")
    parts = [TransitionDataset.load(name) for name in ("a.npz", "b.npz")]
    assert [part.n_episodes for part in parts] == [30, 10]
    assert [int(part.terminations.sum()) for part in parts] == [6, 2]


@pytest.mark.parametrize(
    ("terminated", "others", "share", "expected"),
    [
        (2, 8, 0.1, (0, 1)),
        (5, 2, 0.5, (3, 1)),
        (6, 2, 0.25, (1, 1)),
        (3, 2, 0.5, (1, 1)),
        (9, 1, 0.5, (5, 0)),
        (2, 1, 0.5, (1, 1)),
        (2, 1, 0.7, (1, 1)),
        (8, 32, 0.25, (2, 8)),
        (0, 4, 0.5, (0, 2)),
        (4, 0, 0.5, (2, 0)),
    ],
)
def test_either_kind_is_on_either_side(terminated: int, others: int, share: float, expected: tuple[int, int]) -> None:
    ended = np.arange(terminated + others) < terminated
    for seed in range(20):
        drawn = data_split._drawn(ended, data_split.Choice(share, seed))
        assert (int(ended[drawn].sum()), int((~ended[drawn]).sum())) == expected


def test_either_kind_is_on_either_side_wherever_two_of_each_can_be() -> None:
    for terminated, others, percent in itertools.product(range(2, 12), range(2, 12), range(5, 100, 5)):
        ended = np.arange(terminated + others) < terminated
        drawn = data_split._drawn(ended, data_split.Choice(percent / 100, 0))
        of_ended, count = int(ended[drawn].sum()), len(drawn)
        assert count == min(max(1, round(percent / 100 * len(ended))), len(ended) - 1)
        if 2 <= count <= len(ended) - 2:
            assert 1 <= of_ended < terminated
            assert 1 <= count - of_ended < others


def test_no_other_seed_is_named_where_each_draws_as_many(command: Any, tmp_path: Path) -> None:
    rows = [f"{run},{run}.5,{step}.25,0.{step},{int(run < 2 and step == 4)}" for run in range(4) for step in range(5)]
    (tmp_path / "log.csv").write_text("\n".join(["episode,obs,rewards,actions,terminations", *rows]) + "\n")
    out = command("data", "split", "log.csv", "-o", "a.npz", "b.npz").out
    assert "  warning: all 2 terminations are in the part to train on: what is judged by the other part does not" in out
    assert "; a larger --held-out sets some of them aside\nthen: rl-training init a.npz -o a.yaml\n" in out
    out = command("data", "split", "log.csv", "--held-out", "0.5", "--force", "-o", "a.npz", "b.npz").out
    assert "warning" not in out


def test_too_few_to_judge_by(command: Any, tmp_path: Path) -> None:
    rows = [f"{run},{run}.5,{step}.25,0.{step},{step // 4}" for run in range(40) for step in range(5)]
    (tmp_path / "log.csv").write_text("\n".join(["episode,obs,rewards,actions,terminations", *rows]) + "\n")
    out = command("data", "split", "log.csv", "--held-out", "0.01", "-o", "a.npz", "b.npz").out
    assert "  warning: 1 episode set aside: too few to judge by, as evaluate --offline needs 10; --held-out 0.25" in out
    out = command("data", "split", "log.csv", "--force", "-o", "a.npz", "b.npz").out
    assert "  note: 10 episodes set aside are often too few to judge a policy by: --held-out 0.4 sets 16 aside\n" in out
    out = command("data", "split", "log.csv", "--held-out", "0.4", "--force", "-o", "a.npz", "b.npz").out
    assert "too few" not in out


@pytest.mark.parametrize(("aside", "whole", "told"), [(40, 160, "sets 64 aside"), (50, 200, ""), (45, 100, "")])
def test_often_too_few_to_judge_by(aside: int, whole: int, told: str) -> None:
    assert (to_judge_by(aside, whole) or "").endswith(told)
    assert bool(to_judge_by(aside, whole)) is bool(told)
