"""What users get wrong with `rl-training data …`: one line on standard error, exit code 2, nothing written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sick_data import healthy


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A healthy file, and one of every sickness that keeps a file from being read or trained on."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    arrays = healthy()
    np.savez(tmp_path / "good.npz", **arrays)
    np.savez(tmp_path / "nan.npz", **healthy(obs=np.full_like(arrays["obs"], np.nan)))
    np.savez(tmp_path / "short.npz", **healthy(actions=arrays["actions"][:-1]))
    np.savez(
        tmp_path / "names.npz", **{name: arrays[name] for name in arrays if name != "actions"}, torque=arrays["actions"]
    )
    (tmp_path / "cut.npz").write_bytes((tmp_path / "good.npz").read_bytes()[:2000])
    (tmp_path / "empty.npz").touch()
    (tmp_path / "log.csv").write_text("x,y,u,r,done\n1,2,0.5,1,0\n3,4,0.25,1,1\n")
    (tmp_path / "ragged.csv").write_text("obs,action,reward,done\n1,2,3\n")
    (tmp_path / "text.csv").write_text("obs,action,reward,done\n1,2,x,0\n")
    (tmp_path / "log.csv.gz").write_bytes(b"\x1f\x8b\x08\x00")
    (tmp_path / "data.pkl").write_bytes(b"\x80\x04\x95")
    (tmp_path / "run.yaml").write_text("algo: bc\ntotal_timesteps: 5\ndataset: good.npz\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.txt").touch()


GOOD = ("good.npz", "out.npz")
COLLECT = ("--env-id", "Pendulum-v1", "--policy", "random", "--steps", "5")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["check"], "Missing argument"),
        (["check", "run.yaml"], "run.yaml: is a configuration, not data; `rl-training data check -c run.yaml` checks"),
        (
            ["convert", "run.yaml", "x.npz"],
            "run.yaml: is a configuration, not data; `rl-training data convert x.npz -c",
        ),
        (["check", "good.npz", "-c", "run.yaml"], "--config run.yaml: not beside good.npz; give a dataset, or -c"),
        (
            ["check", "-c", "run.yaml", "--columns", "obs=x"],
            "--columns: run.yaml says how its data are read; leave it out, and write columns: {obs: x} there",
        ),
        (
            ["check", "-c", "run.yaml", "--missing", "drop"],
            "--missing: run.yaml says how its data are read; leave it out, and write missing: drop there",
        ),
        (
            ["check", "-c", "run.yaml", "--at-termination=-3"],
            "--at-termination=-3: run.yaml says how its data are read; leave it out, and write at_termination: -3",
        ),
        (
            ["check", "-c", "run.yaml", "--set", "a=1"],
            "No such option: --set; write it into the configuration; how data are read",
        ),
        (["check", "-c", "run.yml"], "config: no file run.yml; did you mean 'run.yaml'?"),
        (["check", "-c", "bc/pendulum"], "bc/pendulum: its data (scripted) are made when it is trained; nothing to"),
        (["check", "goof.npz"], "goof.npz: no such file; did you mean 'good.npz'?"),
        (["check", "zzz.npz"], "zzz.npz: no such file (relative paths start at "),
        (["check", "nowhere/good.npz"], "nowhere/good.npz: no such file (folder 'nowhere' does not exist)"),
        (["check", "folder"], "folder: not a folder this version reads"),
        (["check", "empty.npz"], "empty.npz: not a dataset in a format this version reads"),
        (["check", "cut.npz"], "cut.npz: not a readable .npz file"),
        (["check", "log.csv.gz"], "log.csv.gz: not a dataset in a format this version reads (NumPy archive"),
        (["check", "data.pkl"], "data.pkl: not a dataset in a format this version reads (NumPy archive"),
        (["check", "ragged.csv"], "ragged.csv: line 2 has 3 values, but the header names 4 columns"),
        (["check", "text.csv"], "text.csv: column 'reward': 'x' at row 0 is not a number"),
        (["check", "log.csv"], "log.csv: lacks obs, actions, rewards; the data have x, y, u, r, done; say which"),
        (["check", "good.npz", "--env-id", "Nope-v0"], "unknown environment 'Nope-v0': "),
        (["check", "good.npz", "--env-id", "Pendulun-v1"], "unknown environment 'Pendulun-v1'; did you mean 'Pendulum"),
        (
            ["check", "good.npz", "--columns", "obs=x"],
            "good.npz: columns.obs: no column 'x'; the data have obs,",
        ),
        (["check", "good.npz", "--colums", "obs=x"], "No such option: --colums"),
        (["check", "good.npz", "--max-episode-steps", "0"], "Invalid value for '--max-episode-steps': must be greater"),
        (["check", "good.npz", "--dones-are", "maybe"], "Invalid value for '--dones-are': 'maybe' is not one of 'term"),
        (["check", "good.npz", "--html", "folder"], "--html folder: is a folder; name a file"),
        (["check", "good.npz", "--html", "good.npz"], "--html good.npz: is the data, which the page would replace"),
        (
            ["check", "good.npz", "--download"],
            "--download: is for a Minari dataset (minari:ID), and good.npz is a path",
        ),
        (["check", "minari:a/none-v0"], "minari: no dataset 'a/none-v0' in "),
        (["info", "nan.npz"], "nan.npz: obs: NaN at row 0, column 0 (episode 0, step 0)"),
        (["info", "short.npz"], "short.npz: actions: "),
        (["info", "names.npz"], "names.npz: lacks actions; the data have obs, "),
        (["info", "good.npz", "more.npz"], "Got unexpected extra argument(s) (more.npz): one dataset at a time"),
        (["convert", "good.npz"], "Missing argument"),
        (["convert", "good.npz", "out.xyz"], "out.xyz: must end in .npz, .hdf5, .h5, .parquet, .csv or in /"),
        (["convert", "good.npz", "./"], "./: is a folder; give the name of a file in it, or of a new folder"),
        (
            ["convert", "good.npz", "folder/", "--force"],
            "folder: is a folder, but no dataset, and will not be replaced",
        ),
        (
            ["convert", "good.npz", "log.csv/out.npz"],
            "log.csv/out.npz: the folder 'log.csv' cannot be made: File exists",
        ),
        (["convert", "good.npz", "good.npz"], "good.npz: is the source itself; choose another name"),
        (["convert", "good.npz", "good.npz", "--force"], "good.npz: is the source itself; choose another name"),
        (["convert", "good.npz", "short.npz"], "short.npz: exists already; --force replaces it"),
        (["convert", "nan.npz", "out.npz"], "nan.npz: obs: NaN at row 0"),
        (["convert", *GOOD, "--env-id", "Pendulum-v1"], "good.npz: actions have 2 columns, but environment"),
        (["convert", *GOOD, "--dones-are", "ends"], "good.npz: --dones-are: the data have no dones"),
        (["convert", "log.csv", "o.npz", "--columns", "obs=x,z"], "log.csv: columns.obs: no column 'z'; the data have"),
        (["convert", "log.csv", "o.npz", "--columns", "ob=x"], "log.csv: columns: no field 'ob'; did you mean 'obs'?"),
        (["collect", *COLLECT, "-o", "x.xyz"], "x.xyz: must end in .npz, .hdf5"),
        (["collect", *COLLECT, "-o", "good.npz"], "good.npz: exists already; replace it with --force"),
        (["collect", *COLLECT, "-o", "folder/", "--force"], "folder: is a folder, but no dataset, and will not be"),
        (
            ["collect", *COLLECT, "-o", "x", "--format", "zip"],
            "Invalid value for '--format': 'zip' is not one of 'npz'",
        ),
        (["colect"], "No such command 'colect'. Did you mean 'collect'"),
    ],
)
def test_is_one_line(arguments: list[str], complaint: str, mistake: Any) -> None:
    assert mistake("data", *arguments).startswith(f"error: {complaint}")


def test_options_that_do_not_fit_suggest_no_check(mistake: Any) -> None:
    """It would only say the same again."""
    assert mistake("data", "convert", *GOOD, "--dones-are", "ends").endswith("leave it out")


def test_a_column_of_texts_is_not_called_missing(mistake: Any, tmp_path: Path) -> None:
    """Declared so, the whole column would be."""
    rows = [f"{i % 20},{i / 7:.2f},{'open' if i % 9 == 0 else 'shut'},{i % 3 - 1}.5,1" for i in range(60)]
    (tmp_path / "door.csv").write_text("\n".join(["t,temp,door,u,r", *rows]) + "\n")
    columns = ["obs=temp,door", "actions=u", "rewards=r", "step=t"]
    said = mistake("data", "check", "door.csv", *(word for one in columns for word in ("--columns", one)))
    way = "say what number each word stands for, --words door=shut:0,open:1, or leave it out"
    assert f"'door' holds text in most rows: {way}" in said
    assert "missing-words" not in said
