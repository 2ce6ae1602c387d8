"""`rl-training data convert`: what it says, what it writes, and its mistakes in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from real_data import REAL, needs_real_data
from rl_training.data import TransitionDataset
from rl_training.data.dataset_files import dataset_files
from rl_training.validation import shortened
from sick_data import healthy


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three runs of twenty rows with columns of our own naming."""
    lines = ["run,x,y,u,r,done,note"]
    lines += [f"{i // 20},{i},{-i},0.5,1,{int(i % 20 == 19)},-" for i in range(60)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


COLUMNS = ("--columns", "obs=x,y", "--columns", "actions=u", "--columns", "rewards=r", "--columns", "episode_ids=run")


def test_says_what_it_found_and_wrote(command: Any, log: Path, tmp_path: Path) -> None:
    code, out, err = command("data", "convert", "log.csv", "log.npz", *COLUMNS)
    size = (tmp_path / "log.npz").stat().st_size
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "log.csv: CSV, separated by commas",
        "  note: columns not used: note",
        "  note: done: all 3 episodes they end have 20 rows, so they are read as time limits (truncations);"
        " if the task itself ended there, say --dones-are terminations",
        "  60 rows, 3 episodes, mean return 20.0; observations 2, actions 1",
        "  3 rows without a recorded successor",
        f"written: log.npz ({size / 1000:.1f} kB)",
    ]
    assert TransitionDataset.load("log.npz").truncations.nonzero()[0].tolist() == [19, 39, 59]


def test_options_are_passed_on(command: Any, log: Path) -> None:
    assert command("data", "convert", log, "a.npz", *COLUMNS, "--dones-are", "terminations").code == 0
    assert TransitionDataset.load("a.npz").terminations.sum() == 3
    assert command("data", "convert", "a.npz", "b.hdf5", "--time-limits", "d4rl").code == 0
    assert len(TransitionDataset.load("b.hdf5")) == 59
    assert command("data", "convert", log, "c/", *COLUMNS, "--max-episode-steps", 20).code == 0
    assert TransitionDataset.load("c").truncations.sum() == 3


def test_every_format_into_every_other(command: Any, log: Path) -> None:
    pytest.importorskip("pyarrow")
    command("data", "convert", log, "a.npz", *COLUMNS)
    expected = TransitionDataset.load("a.npz").fingerprint()
    for source, target in [("a.npz", "b.parquet"), ("b.parquet", "c.csv"), ("c.csv", "d.h5"), ("d.h5", "e/")]:
        assert command("data", "convert", source, target).code == 0
        assert TransitionDataset.load(target).fingerprint() == expected
    assert "e: column directory" in command("data", "convert", "e", "f.npz").out


def test_what_csv_cannot_hold_stands_beside(command: Any, tmp_path: Path) -> None:
    command("data", "collect", "--env-id", "Pendulum-v1", "--policy", "random", "--steps", 5, "-o", "a.npz", "-q")
    out = command("data", "convert", "a.npz", "b.hdf5").out
    assert out.startswith("a.npz: NumPy archive (.npz), recorded in Pendulum-v1\n  5 rows, 1 episode, mean return -")
    assert TransitionDataset.load("b.hdf5").bounds == TransitionDataset.load("a.npz").bounds
    out = command("data", "convert", "b.hdf5", "c.csv").out
    assert "  note: CSV has no place for the environment, bounds: kept in c.csv-metadata.json, leave it beside\n" in out
    back, before = TransitionDataset.load("c.csv"), TransitionDataset.load("a.npz")
    assert (back.env_id, back.bounds) == (before.env_id, before.bounds)
    (tmp_path / "c.csv-metadata.json").unlink()
    assert TransitionDataset.load("c.csv").bounds is None


def test_an_environment_is_written_down(command: Any, mistake: Any, tmp_path: Path) -> None:
    lines = ["obs_0,obs_1,obs_2,action,reward,done,episode"] + [f"0.5,0.5,{i},{i % 3 - 1},1,0,0" for i in range(8)]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    out = command("data", "convert", "log.csv", "log.npz", "--env-id", "Pendulum-v1").out
    assert out.startswith("log.csv: CSV, separated by commas, recorded in Pendulum-v1\n")
    written = TransitionDataset.load("log.npz")
    assert written.env_id == "Pendulum-v1"
    assert written.bounds is not None
    assert written.bounds.action_high == (2.0,)
    told = mistake("data", "convert", "log.csv", "b.npz", "--env-id", "MountainCarContinuous-v0")
    assert told == "error: log.csv: observations have 3 columns, but environment 'MountainCarContinuous-v0' has 2"
    told = mistake("data", "convert", "log.csv", "b.npz", "--env-id", "Pendulm-v1")
    assert told == "error: unknown environment 'Pendulm-v1'; did you mean 'Pendulum-v1'?"


def test_minari(command: Any, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: Any) -> None:
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    out = command("data", "convert", log, "minari:own/log-v0", *COLUMNS).out
    assert "  note: 3 rows left out: Minari cannot hold one whose next observation is unknown" in out
    out = command("data", "convert", "minari:own/log-v0", "back.npz").out
    assert out.startswith("minari:own/log-v0: Minari dataset own/log-v0\n  57 rows, 3 episodes, mean return 19.0;")
    assert "did you mean 'own/log-v0'?" in mistake("data", "convert", "minari:own/lag-v0", "x.npz")


@pytest.mark.parametrize("arguments", [("check", "cols"), ("info", "cols"), ("convert", "cols", "b.npz")])
def test_damage_to_a_column_directory_is_found(command: Any, log: Path, arguments: Any, mistake: Any) -> None:
    command("data", "convert", log, "cols/", *COLUMNS)
    raw = bytearray(Path("cols/rewards.npy").read_bytes())
    raw[130] ^= 1
    Path("cols/rewards.npy").write_bytes(raw)
    line = mistake("data", *arguments)
    assert line == "error: cols: rewards.npy: damaged (its SHA-256 is not the schema's)"


@pytest.mark.parametrize("made", ["cols/", "minari:log-v0", "folder/part.csv"])
def test_only_files_that_are_data_are_opened(
    command: Any, log: Path, made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if made.startswith("minari:"):
        pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    assert command("data", "convert", log, made, *COLUMNS).code == 0
    folder = tmp_path / made.removeprefix("minari:").removesuffix("part.csv")
    outside = tmp_path / "outside.txt"
    outside.write_text("secret")
    (folder / "deeper").mkdir()
    (folder / "deeper" / "more.csv").write_text("x")
    for name in ("notes.txt", "deeper/notes.txt", ".notes"):
        (folder / name).symlink_to(outside)
    opened: list[str] = []
    original = Path.open

    def noted(path: Path, *rest: Any, **more: Any) -> Any:
        opened.append(path.name)
        return original(path, *rest, **more)

    monkeypatch.setattr(Path, "open", noted)
    assert command("data", "convert", folder, "b.npz").code == 0
    assert set(opened) & {"notes.txt", ".notes", "more.csv"} == set()
    assert {file.name for file in dataset_files(folder)} <= set(opened)


class TestItsOwnSource:
    """Is never replaced, however it is named."""

    @pytest.fixture(autouse=True)
    def sources(self, command: Any, log: Path, tmp_path: Path) -> None:
        for target in ("a.npz", "cols/", "folder/part.csv"):
            assert command("data", "convert", log, target, *COLUMNS).code == 0
        Path("link.npz").symlink_to("a.npz")
        Path("hard.npz").hardlink_to("a.npz")
        Path("linked").symlink_to("cols", target_is_directory=True)

    @pytest.mark.parametrize(
        ("source", "target", "complaint"),
        [
            ("a.npz", "a.npz", "a.npz: is the source itself; choose another name"),
            ("a.npz", "./folder/../a.npz", "folder/../a.npz: is the source itself; choose another name"),
            ("a.npz", "link.npz", "link.npz: is the source itself; choose another name"),
            ("link.npz", "a.npz", "a.npz: is the source itself; choose another name"),
            ("a.npz", "hard.npz", "hard.npz: is the source itself; choose another name"),
            ("cols", "cols/", "cols: is the source itself; choose another name"),
            ("linked", "cols/", "cols: is the source itself; choose another name"),
            ("cols", "linked/", "linked: is the source itself; choose another name"),
            ("cols", "cols/inner/", "cols/inner: lies inside the source cols; choose a place outside"),
            ("linked/", "cols/a.npz", "cols/a.npz: lies inside the source linked/; choose a place outside"),
            ("folder/part.csv", "folder/", "folder: holds the source folder/part.csv and will not be replaced"),
        ],
    )
    @pytest.mark.parametrize("options", [(), ("--force",)])
    def test_is_kept(self, source: str, target: str, complaint: str, options: Any, mistake: Any) -> None:
        assert mistake("data", "convert", source, target, *options) == f"error: {complaint}"

    def test_of_minari(self, command: Any, mistake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("minari")
        monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
        assert command("data", "convert", "a.npz", "minari:own/log-v0").code == 0
        line = mistake("data", "convert", "minari:own/log-v0", "minari:own/log-v0", "--force")
        assert line.endswith("log-v0: is the source itself; choose another name")
        line = mistake("data", "convert", "minari/own/log-v0/data/main_data.hdf5", "minari:own/log-v0", "--force")
        assert line.endswith("holds the source minari/own/log-v0/data/main_data.hdf5 and will not be replaced")

    @pytest.mark.parametrize(("source", "target"), [("a.npz", "folder/a.npz"), ("cols", "cols2/"), ("cols", "c.npz")])
    def test_neighbours_are_others(self, source: str, target: str, command: Any) -> None:
        assert command("data", "convert", source, target).code == 0
        assert command("data", "convert", source, target, "--force").code == 0


LONG = shortened("n" * 5000)


class TestMistakes:
    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            (("log.csv", "log.txt"), "error: log.txt: must end in .npz, .hdf5, .h5, .parquet, .csv or in /"),
            (("lag.csv", "a.npz"), "error: lag.csv: no such file"),
            (("n" * 5000, "a.npz"), f"error: {LONG}: has a name of more than 255 bytes in it"),
            (("log.csv", f"{'n' * 5000}.npz", *COLUMNS), f"error: {LONG}: has a name of more than 255 bytes in it"),
            (("log.csv", f"{'n' * 5000}/"), f"error: {LONG}: has a name of more than 255 bytes in it"),
            (("log.csv", "log.csv"), "error: log.csv: is the source itself; choose another name"),
            (("log.csv", "a.npz"), "error: log.csv: lacks obs, actions, rewards; the data have run, x, y, u,"),
            (("log.csv", "a.npz", "--columns", "obs"), "error: --columns obs: must name a field and its columns"),
            (("log.csv", "a.npz", "--columns", "obs=x,"), "error: --columns obs=x,: must name a field and its columns"),
            (
                ("log.csv", "a.npz", "--columns", "obs=x", "--columns", "obs=y"),
                "error: --columns obs=y: obs is given twice",
            ),
            (
                ("log.csv", "a.npz", "--columns", "obs=x,z"),
                "error: log.csv: columns.obs: no column 'z'; the data have run, x, y, u, r, done, note",
            ),
            (("log.csv", "a.npz", *COLUMNS, "--columns", "terminations=note"), "error: log.csv: column 'note': '-' at"),
            (("log.csv", "a.npz", "--dones-are", "limits"), "error: Invalid value for '--dones-are'"),
            (("log.csv", "minari:x"), "error: minari: 'x' is no id; one looks like D4RL/door/human-v2"),
        ],
    )
    def test_are_one_line(self, arguments: tuple[str, ...], complaint: str, log: Path, mistake: Any) -> None:
        assert mistake("data", "convert", *arguments).startswith(complaint)


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom rl_training.cli.main import app\n"
        "for a in (['data', '--help'], ['data', 'convert', '--help']): app(a, standalone_mode=False)\n"
        "print([m for m in ('torch', 'numpy', 'pyarrow', 'h5py') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr == "[]\n"
    assert "--dones-are" in done.stdout


@needs_real_data
def test_the_real_minari_dataset(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(REAL / "minari"))
    out = command("data", "convert", "minari:D4RL/door/human-v2", "door.npz").out
    assert "Minari dataset D4RL/door/human-v2, recorded in AdroitHandDoor-v1\n  note: float64 is written as" in out
    assert "\n  6,729 rows, 25 episodes" in out
    assert np.isfinite(TransitionDataset.load("door.npz").obs).all()


def test_the_environment_that_the_source_names_is_not_overwritten(command: Any, mistake: Any, tmp_path: Path) -> None:
    command("data", "collect", "--env-id", "Pendulum-v1", "--policy", "random", "--steps", 5, "-o", "a.npz", "-q")
    told = mistake("data", "convert", "a.npz", "b.npz", "--env-id", "MountainCarContinuous-v0")
    said = "was recorded in Pendulum-v1, as it says itself, not in MountainCarContinuous-v0; leave out --env-id"
    assert told == f"error: a.npz: {said}"
    with np.load("a.npz") as file:
        np.savez("narrow.npz", **{**file, "metadata/action_high": np.array([1.9999])})
    assert command("data", "convert", "narrow.npz", "b.npz", "--env-id", "Pendulum-v1").code == 0
    bounds = TransitionDataset.load("b.npz").bounds
    assert bounds is not None
    assert bounds.action_high == (1.9999,)


def test_float64_is_told_and_what_it_loses(command: Any, tmp_path: Path) -> None:
    arrays = healthy(next_obs=None)
    np.savez("narrow.npz", **arrays)
    assert "float64" not in command("data", "convert", "narrow.npz", "a.npz").out
    arrays["obs"] = arrays["obs"].astype(np.float64)
    arrays["obs"][:, 1] += 1e9
    np.savez("wide.npz", **arrays)
    out = command("data", "convert", "wide.npz", "b.npz").out
    assert "  note: float64 is written as float32, which is what is trained on: obs\n" in out
    assert "  warning: obs [values.resolution]: Column 1 lies about 1e+09 " in out
