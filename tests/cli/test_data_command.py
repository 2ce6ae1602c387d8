"""`rl-training data check` and `data info`: what they print, write and return."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import rl_training
from rl_training import yaml_dialect
from rl_training.cli.reading_options import Reading
from rl_training.data import TransitionDataset
from rl_training.data.formats import columns
from sick_data import healthy

SOURCE = Path(rl_training.__file__).parents[1]


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.npz"
    np.savez(path, **healthy())
    return path


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.npz"
    arrays = healthy()
    arrays["rewards"][40] = np.nan
    np.savez(path, **arrays)
    return path


class TestCheck:
    def test_healthy_data(self, command: Any, good: Path) -> None:
        code, out, err = command("data", "check", good)
        assert (code, err) == (0, "")
        assert out.startswith("good.npz\n")
        assert "  episodes      24: 12 terminated, 12 truncated\n" in out
        assert out.endswith("verdict: healthy: no findings\n")
        assert "\x1b" not in out  # plain where it is no terminal

    def test_sick_data(self, command: Any, bad: Path) -> None:
        code, out, _ = command("data", "check", bad)
        assert code == 1
        assert "Errors (1)\n  • rewards [values.nan]: 1 value is NaN, in 1 row of 1 episode. At row 40" in out
        assert out.endswith("verdict: not fit for training: 1 error\n")

    def test_another_environment_than_the_file_names(self, command: Any) -> None:
        command(
            "data", "collect", "--env-id", "Pendulum-v1", "--policy", "scripted", "--steps", 500, "-o", "a.npz", "-q"
        )
        said = "[env.differs]: The file says that it was recorded in Pendulum-v1, and is held to HalfCheetah-v9."
        for what in ("check", "info"):
            code, out, _ = command("data", what, "a.npz", "--env-id", "Pendulum-v1")
            assert (code, "env.differs" in out) == (0, False)
        code, out, _ = command("data", "info", "a.npz", "--env-id", "HalfCheetah-v9")
        assert (code, said in " ".join(out.split())) == (0, True)
        code, out, _ = command("data", "check", "a.npz", "--env-id", "MountainCarContinuous-v0", "--json")
        assert ("warning", "env.differs") in [(found["level"], found["code"]) for found in json.loads(out)["findings"]]

    def test_warnings_are_no_failure(self, command: Any, tmp_path: Path) -> None:
        np.savez(tmp_path / "zero.npz", **healthy(rewards=np.zeros(len(healthy()["obs"]))))
        code, out, _ = command("data", "check", "zero.npz")
        assert code == 0
        assert "verdict: fit for training, but look at the warnings: 1 warning" in out

    def test_json(self, command: Any, bad: Path) -> None:
        code, out, _ = command("data", "check", bad, "--json")
        report = json.loads(out)
        assert code == 1
        assert report["path"] == str(bad)
        assert (report["ok"], report["findings"][0]["code"]) == (False, "values.nan")
        assert report["facts"]["lengths"]["counts"]

    def test_page(self, command: Any, bad: Path, tmp_path: Path) -> None:
        code, out, _ = command("data", "check", bad, "--html", "report.html")
        assert code == 1
        assert out.endswith("page: report.html\n")
        assert "not fit for training: 1 error" in (tmp_path / "report.html").read_text("utf-8")

    def test_page_that_cannot_be_written(self, mistake: Any, good: Path) -> None:
        message = mistake("data", "check", good, "--html", "/dev/null/report.html", "--json")
        assert message.startswith("error: --html /dev/null/report.html: /dev/null is no folder")

    def test_a_full_disk_leaves_the_page_that_was_there(
        self, mistake: Any, good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "report.html").write_text("the last one")
        before = sorted(tmp_path.iterdir())

        def full(descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        message = mistake("data", "check", good, "--html", "report.html")
        assert message == "error: --html report.html: cannot be written (No space left on device)"
        assert (tmp_path / "report.html").read_text() == "the last one"
        assert sorted(tmp_path.iterdir()) == before

    def test_no_such_file(self, mistake: Any) -> None:
        message = mistake("data", "check", "nothing.npz")
        assert message == f"error: nothing.npz: no such file (relative paths start at {Path.cwd()})"
        Path("nothng.npz").touch()
        message = mistake("data", "info", "nothing.npz")
        assert message == "error: nothing.npz: no such file; did you mean 'nothng.npz'?"

    def test_no_dataset(self, mistake: Any, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("obs and actions")
        assert mistake("data", "check", "notes.txt").startswith("error: notes.txt: not a dataset")

    def test_columns_of_a_folder_of_columns(self, mistake: Any, good: Path, tmp_path: Path) -> None:
        columns.write(TransitionDataset.load(good), tmp_path / "log")
        assert mistake("data", "check", "log", "--columns", "obs=x,y") == (
            "error: log: columns: a column directory holds the fields by their own names; leave them out"
        )

    def test_arrays_of_other_names(self, command: Any, tmp_path: Path) -> None:
        arrays = healthy()
        np.savez(tmp_path / "odd.npz", **{f"my {name}": values for name, values in arrays.items()})
        options = [part for name in arrays for part in ("--columns", f"{name}=my {name}")]
        code, out, _ = command("data", "check", "odd.npz", *options)
        assert (code, out.splitlines()[-1]) == (0, "verdict: healthy: no findings")

    def test_as_a_configuration_says(self, command: Any, tmp_path: Path) -> None:
        arrays = healthy()
        np.savez(tmp_path / "odd.npz", **{f"my, {name}": values for name, values in arrays.items()})
        section = {"source": "file", "path": "odd.npz", "columns": {name: f"my, {name}" for name in arrays}}
        values = {"algo": "bc", "total_timesteps": 5, "dataset": section}
        (tmp_path / "config.yaml").write_text(yaml_dialect.write(values))
        code, out, _ = command("data", "check", "-c", "config.yaml")
        assert (code, out.splitlines()[0]) == (0, "odd.npz")
        assert out.splitlines()[-1] == "verdict: healthy: no findings"

    def test_one_long_episode_beside_ids_that_nobody_reads(self, command: Any, tmp_path: Path) -> None:
        arrays = {name: values for name, values in healthy().items() if name not in ("truncations", "next_obs")}
        last = np.arange(len(arrays["rewards"])) == len(arrays["rewards"]) - 1
        with h5py.File(tmp_path / "log.hdf5", "w") as file:
            for name, values in (arrays | {"terminations": last, "traj_id": np.cumsum(last)}).items():
                file[name] = values
        code, out, _ = command("data", "check", "log.hdf5")
        assert code == 0
        assert "Column 'traj_id' looks like an episode id: --columns episode_ids=traj_id." in " ".join(out.split())
        assert "verdict: fit for training, but look at the warnings" in out

    def test_columns_said_wrongly(self, mistake: Any, good: Path) -> None:
        assert mistake("data", "check", good, "--columns", "obs") == (
            "error: --columns obs: must name a field and its columns, such as obs=x,y"
        )


class TestEnvironment:
    def test_bounds_are_its_own(self, command: Any, data_file: Path) -> None:
        code, out, _ = command("data", "check", data_file, "--env-id", "Pendulum-v1")
        assert code == 0
        assert "bounds [-2, 2] (the environment's)" in out

    def test_actions_outside_are_errors(self, command: Any, dataset: TransitionDataset, tmp_path: Path) -> None:
        arrays = dataset.to_dict()
        arrays["actions"] = arrays["actions"] * 1.5
        np.savez(tmp_path / "wide.npz", **arrays)
        assert command("data", "check", "wide.npz").code == 0
        code, out, _ = command("data", "check", "wide.npz", "--env-id", "Pendulum-v1")
        assert code == 1
        assert "actions [actions.outside]" in out

    def test_filtered_observations(self, command: Any, dataset: TransitionDataset, tmp_path: Path) -> None:
        """Cosines above 1, as in data whose observations were normalised by their recorder."""
        arrays = dataset.to_dict()
        for name in ("obs", "next_obs"):
            arrays[name] = arrays[name] * 1.7
        np.savez(tmp_path / "filtered.npz", **arrays)
        code, out, _ = command("data", "check", "filtered.npz", "--env-id", "Pendulum-v1")
        assert code == 0
        assert "obs [obs.outside-space]" in out

    def test_that_cannot_be_trained_on(self, command: Any, good: Path) -> None:
        code, out, _ = command("data", "check", good, "--env-id", "CartPole-v1")
        assert code == 1
        assert "data [env.unsupported]" in out

    def test_unknown(self, mistake: Any, good: Path) -> None:
        assert "did you mean 'Pendulum-v1'?" in mistake("data", "check", good, "--env-id", "Pendulm-v1")

    def test_known_only_by_its_scores(self, command: Any, good: Path) -> None:
        code, out, _ = command("data", "check", good, "--env-id", "hopper-medium-v2")
        assert code == 0
        assert "D4RL's scale" in out
        assert "note" in out

    def test_named_by_a_file_imports_nothing(
        self, command: Any, good: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        import h5py

        (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
        monkeypatch.syspath_prepend(str(tmp_path))
        with h5py.File(tmp_path / "a.hdf5", "w") as file:
            for name, values in healthy().items():
                file[name] = values
            file.attrs["env_id"] = "trap:Trap-v0"
        code, out, _ = command("data", "check", "a.hdf5")
        assert code == 0
        assert "'trap:Trap-v0', which is not installed here" in " ".join(out.split())
        assert "trap" not in sys.modules


class TestInfo:
    def test_of_data(self, command: Any, good: Path) -> None:
        code, out, err = command("data", "info", good)
        assert (code, err) == (0, "")
        dataset = TransitionDataset.load(good)
        assert f"  fingerprint   {dataset.fingerprint()}\n" in out
        assert "normalise_observations" in out
        scale = 1000.0 / (dataset.episode_returns().max() - dataset.episode_returns().min())
        assert f"  rewards       times {scale:.1f}, plus 0\n" in out

    def test_as_json(self, command: Any, good: Path) -> None:
        facts = json.loads(command("data", "info", good, "--json").out)
        dataset = TransitionDataset.load(good)
        assert facts["fingerprint"] == dataset.fingerprint()
        assert facts["transforms"]["obs_mean"] == pytest.approx(dataset.obs.mean(axis=0).tolist(), abs=1e-5)
        assert facts["rows"] == len(dataset)

    def test_of_equal_returns(self, command: Any, tmp_path: Path) -> None:
        """There is no range to scale by, which is no reason to fail."""
        np.savez(tmp_path / "zero.npz", **healthy(rewards=np.zeros(len(healthy()["obs"]))))
        assert "times 1, plus 0" in command("data", "info", "zero.npz").out

    def test_of_bad_data(self, mistake: Any, bad: Path) -> None:
        message = mistake("data", "info", bad)
        assert "rewards: NaN at row 40 (episode 0, step 40)" in message
        assert message.endswith(f"(all that is wrong: rl-training data check {bad})")

    def test_of_a_run(self, command: Any, run: Path) -> None:
        code, out, _ = command("data", "info", run)
        assert code == 0
        assert out.startswith(f"{run.name}: bc on data alone\n")
        assert "observations  as they are" in out

    def test_of_a_run_as_json(self, command: Any, run: Path) -> None:
        stored = json.loads(command("data", "info", run, "--json").out)
        assert stored["algo"] == "bc"
        assert set(stored["transforms"]) >= {"obs_mean", "obs_std", "reward_scale", "action_low"}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three runs of twenty rows in a table with names of its own, dones on the last rows."""
    lines = ["run,x,u,r,done"] + [f"{i // 20},{i},{i % 7 / 7},{i % 3},{int(i % 20 == 19)}" for i in range(60)]
    path = tmp_path / "my log.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


COLUMNS = ("--columns", "obs=x", "--columns", "actions=u", "--columns", "rewards=r", "--columns", "episode_ids=run")


class TestOptionsOfReading:
    """`check`, `info` and `convert` take the same ones, and repeat them in what they suggest."""

    @pytest.mark.parametrize("name", ["check", "info", "convert"])
    def test_are_the_same(self, name: str, command: Any) -> None:
        text = command("data", name, "--help").out
        for option in ("--columns", "--time-limits", "--max-episode-steps", "--dones-are", "--download"):
            assert option in text

    @pytest.mark.parametrize("name", ["check", "info"])
    @pytest.mark.parametrize(
        ("options", "facts"),
        [
            ((), {"rows": 60, "episodes": 3, "terminated": 0, "truncated": 3}),
            (("--dones-are", "terminations"), {"rows": 60, "episodes": 3, "terminated": 3, "truncated": 0}),
            (("--max-episode-steps", 10), {"rows": 60, "episodes": 6, "terminated": 0, "truncated": 6}),
            (("--time-limits", "d4rl"), {"rows": 57, "episodes": 3, "terminated": 0, "truncated": 3}),
        ],
    )
    def test_say_how_flags_are_read(
        self, name: str, options: tuple[Any, ...], facts: dict[str, int], command: Any, log: Path
    ) -> None:
        code, out, err = command("data", name, log, *COLUMNS, *options, "--json")
        assert (code, err) == (0, "")
        found = json.loads(out)
        found = found.get("facts", found)
        assert {key: found[key] for key in facts} == facts

    @pytest.mark.parametrize("name", ["check", "info"])
    def test_that_do_not_fit(self, name: str, mistake: Any, good: Path) -> None:
        message = mistake("data", name, good, "--dones-are", "ends")
        assert f"{good}: --dones-are: the data have no dones, only obs, actions," in message

    @pytest.mark.parametrize("name", ["info", "convert"])
    def test_are_repeated(self, name: str, mistake: Any, command: Any, log: Path) -> None:
        log.write_text(log.read_text().replace("0,5,", "0,nan,"))
        target = ("x.npz",) if name == "convert" else ()
        options = ("--env-id", "Pendulum-v1", *COLUMNS, "--dones-are", "terminations")
        message = mistake("data", name, log.name, *target, *options)
        assert "obs: NaN at row 5" in message
        suggested = message.partition("(all that is wrong: ")[2].removesuffix(")")
        _, *words = shlex.split(suggested)
        assert words == ["data", "check", "my log.csv", *options]
        assert command(*words).code == 1

    def test_what_is_missing_is_told_in_options(self, mistake: Any, log: Path) -> None:
        assert (
            "say which columns hold them with --columns obs=…;"
            " column 'run' looks like an episode id: --columns episode_ids=run;"
            " `rl-training init '"
        ) in mistake("data", "info", log)


class TestColumnsWithCommas:
    """A name with a comma is put in double quotes, which is also how it is listed."""

    def test_are_named(self, command: Any, mistake: Any, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_text('"pos, x","say ""hi""",u,r,fell\n1,2,0.5,1,0\n3,4,0.25,1,1\n')
        rest = ("--columns", "actions=u", "--columns", "rewards=r", "--columns", "terminations=fell")
        assert "the data have 'pos, x', say" in mistake("data", "info", "a.csv")
        code, out, _ = command("data", "info", "a.csv", "--columns", 'obs="pos, x", "say ""hi"""', *rest)
        assert code == 0
        assert "observations  2 columns" in out
        command("data", "convert", "a.csv", "a.npz", "--columns", 'obs="pos, x"', *rest)
        np.testing.assert_array_equal(np.load(tmp_path / "a.npz")["obs"], [[1], [3]])

    @pytest.mark.parametrize("entry", ['obs="x', 'obs="x"y', "obs=x,,y", 'obs=""'])
    def test_are_quoted_wrongly(self, entry: str, mistake: Any, good: Path) -> None:
        assert mistake("data", "check", good, "--columns", entry).startswith(
            f"error: --columns {entry}: must name a field and its columns"
        )


def test_info_warns_of_episodes_as_check_does(command: Any, tmp_path: Path) -> None:
    arrays = healthy()
    np.savez(
        tmp_path / "log.npz",
        **{name: arrays[name] for name in ("obs", "actions", "rewards")},
        dones=0 * arrays["rewards"],
    )
    out = command("data", "info", "log.npz").out
    warning = "terminations [flags.none]: No row ends an episode: all"
    assert f"Warnings (1)\n  • {warning}" in out
    assert warning in command("data", "check", "log.npz").out
    (found,) = json.loads(command("data", "info", "log.npz", "--json").out)["warnings"]
    assert found["code"] == "flags.none"


def test_info_warns_of_ids_that_nobody_reads(command: Any, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("obs,actions,rewards,terminations,traj\n1,0.5,1,0,0\n2,0.5,1,1,1\n")
    found = json.loads(command("data", "info", "log.csv", "--json").out)
    assert [one["what"] for one in found["warnings"]] == [
        "Column 'traj' looks like an episode id: --columns episode_ids=traj."
    ]
    assert found["notes"] == ["columns not used: traj"]


class TestNotesOfInfo:
    def test_are_those_of_check(self, command: Any, log: Path) -> None:
        out = command("data", "info", log, *COLUMNS).out
        assert "Notes (1)\n  • done: all 3 episodes they end have 20 rows, so they are read as time limits" in out
        (note,) = json.loads(command("data", "info", log, *COLUMNS, "--json").out)["notes"]
        assert note.startswith("done: all 3 episodes")

    def test_a_field_keeps_its_spelling(self, command: Any, tmp_path: Path) -> None:
        (tmp_path / "one.csv").write_text("obs_0,actions_0,rewards,terminations,next_obs_0\n1,0.5,1,1,2\n")
        assert "  • next_obs from next_obs_0.\n" in command("data", "info", "one.csv").out
        assert "data [data.read]: next_obs from next_obs_0.\n" in command("data", "check", "one.csv").out


def test_facts_of_one_row_in_words(command: Any, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("obs,actions,rewards,terminations,next_obs,episode\n1,0.5,3,1,2,first\n")
    lines = [line.strip() for line in command("data", "check", "one.csv").out.splitlines()]
    assert "episodes      1, terminated" in lines
    assert "observations  1 column; next_obs is stored" in lines
    assert any("1 column; bounds [-1, 1] (the usual ones, as all lie inside)" in line for line in lines)
    assert "rewards       always 3" in lines
    assert "lengths       1 row" in lines
    assert "returns       3" in lines
    assert json.loads(command("data", "check", "one.csv", "--json").out)["facts"]["fields"]["episode"] == "text 1"


class TestErrorsAsJson:
    """Whoever reads standard output by a program gets JSON, whatever happens; the line on standard error is there."""

    @pytest.mark.parametrize("name", ["check", "info"])
    @pytest.mark.parametrize("file", ["my log.csv", "/bin/sh", "missing.npz", "minari:a/b-v0"])
    def test_of_what_cannot_be_read(self, name: str, file: str, command: Any, log: Path) -> None:
        code, out, err = command("data", name, file, "--json")
        assert code == 2
        told = json.loads(out)
        assert (told["path"], told["ok"]) == (file, False)
        assert err == f"error: {told['error']}\n"

    def test_of_an_unknown_environment(self, command: Any, good: Path) -> None:
        code, out, _ = command("data", "check", good, "--env-id", "Hoppper-v4", "--json")
        assert (code, json.loads(out)["error"][:34]) == (2, "unknown environment 'Hoppper-v4'; ")


COMMAND = """
import sys
from rl_training.cli.main import main

try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
assert "torch" not in sys.modules, "torch was imported"
"""


@pytest.mark.parametrize("arguments", [["data", "--help"], ["data", "check", "--help"], ["data", "check", "good.npz"]])
def test_torch_is_not_needed(good: Path, arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=good.parent,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "option", [("--columns", "obs=x"), ("--dones-are", "ends"), ("--download",), ("--env-id", "A-v0")]
)
def test_info_on_a_run_reads_no_data(option: tuple[str, ...], mistake: Any, run: Path) -> None:
    said = mistake("data", "info", run, *option)
    assert said == f"error: {option[0]}: is for data, and {run} is a run; leave it out"


def test_info_tells_of_packed_rows(command: Any, good: Path, tmp_path: Path) -> None:
    assert command("data", "convert", good, "log/").code == 0
    assert json.loads(command("data", "info", "log", "--json").out)["notes"] == []
    (tmp_path / "log" / ".packed").mkdir()
    (tmp_path / "log" / ".packed" / "0.f32").write_bytes(bytes(5_000_000))
    said = "log/.packed holds packed rows for training from disk (1 file, 0.005 GB); it can be deleted"
    assert json.loads(command("data", "info", "log", "--json").out)["notes"] == [said]


def test_a_suggested_command_downloads_too() -> None:
    command = Reading(download=True, dones_are="ends").check_command("minari:a/b-v0", None)
    assert command == "rl-training data check minari:a/b-v0 --dones-are ends --download"
