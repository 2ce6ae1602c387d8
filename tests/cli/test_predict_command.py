"""`rl-training predict`: observations from arguments and from files of every kind, good and bad."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.cli import observation_files
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import DataError
from rl_training.experiment import manager
from rl_training.runtime.trainer import train
from small_runs import small_config


def npz(**arrays: Any) -> Callable[[Path], None]:
    return lambda path: np.savez(path, **arrays)


def array_with(old: bytes, new: bytes) -> bytes:
    """A file of an array of 4 by 3 zeros, with other bytes."""
    whole = io.BytesIO()
    np.save(whole, np.zeros((4, 3)))
    return whole.getvalue().replace(old, new)


OBS = [[1.0, 0.0, 0.5], [0.0, -1.0, 2.0]]


class TestPredict:
    def test_observations_as_arguments(self, command: Any, run: Path) -> None:
        expected = manager.load_policy(run).predict(OBS)
        code, out, err = command("predict", run, "--obs", "1,0,0.5", "--obs", "[0 -1, 2e0]")
        assert (code, err) == (0, "")
        np.testing.assert_allclose([json.loads(line) for line in out.splitlines()], expected, rtol=1e-6)
        negative = json.loads(command("predict", run, "--obs", "-1,0,0", "--seed", 2, "--which", 10).out)
        expected = manager.load_policy(run, 10).predict([-1, 0, 0], seed=2)
        np.testing.assert_allclose(negative, expected, rtol=1e-6)

    def test_digits_are_those_of_float32(self, command: Any, run: Path) -> None:
        out = command("predict", run, "--obs", "1,0,0.5").out
        expected = manager.load_policy(run).predict(OBS[0])
        assert len(out) < 20
        np.testing.assert_array_equal(np.float32(json.loads(out)), expected)

    @pytest.mark.parametrize(
        ("name", "write"),
        [
            ("o.npy", lambda path: np.save(path, np.array(OBS))),
            ("o.npz", npz(obs=OBS, rewards=[1.0])),
            ("o.csv", lambda path: path.write_text("1,0,0.5\n0,-1,2\n")),
            ("o.csv", lambda path: path.write_text("cos,sin,speed\n1,0,0.5\n\n0,-1,2\n")),
            ("o.csv", lambda path: path.write_text("obs_2,obs_0,obs_1\n0.5,1,0\n2,0,-1\n")),
            (
                "o.csv",
                lambda path: path.write_text("r,Obs[3],Obs[1],Obs[2]\n7,0.5,1,0\n7,2,0,-1\n"),
            ),
            ("o.json", lambda path: path.write_text(json.dumps(OBS))),
        ],
    )
    def test_observations_from_files(self, name: str, write: Any, command: Any, run: Path, tmp_path: Path) -> None:
        write(tmp_path / name)
        out = command("predict", run, "--obs-file", name).out
        expected = manager.load_policy(run).predict(OBS)
        np.testing.assert_allclose([json.loads(line) for line in out.splitlines()], expected, rtol=1e-6)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ([], "predict: give observations with --obs 0.1,0.2,… or with --obs-file, one of the two"),
            (["--obs", "1,2,3", "--obs-file", "x.npy"], "one of the two"),
            (["--obs", "1,5;2;3"], "separated by commas; write decimals with a point: --obs 1.5,2,3"),
            (["--obs", "1", "2", "3"], "2 3: one observation is one word, its numbers separated by commas"),
            (["o.csv"], "o.csv: is one word too many; observations in a file: --obs-file o.csv"),
            (["--data", "o.csv"], "No such option: --data; did you mean --obs-file?"),
            (["--obs", "1,two,3"], "--obs 1,two,3: must be numbers separated by commas"),
            (["--obs", "1,,3"], "--obs 1,,3: must be numbers separated by commas; '' is none: a policy needs a number"),
            (["--obs", "1,--,3"], "'--' is none: a policy needs a number for each, such as the last one measured"),
            (["--obs", "1,2"], "--obs 1,2: 2 values, 3 expected"),
            (["--obs", ""], "--obs : 0 values, 3 expected"),
            (
                ["--obs", "0,5,0,8,1,2"],
                "--obs 0,5,0,8,1,2: 6 values, 3 expected; write decimals with a point, if that is what the commas stand"
                " before",
            ),
            (["--obs", "1,2,3", "--obs", "1,2"], "--obs 1,2: 2 values, 3 expected"),
            (["--obs", "o.csv"], "must be numbers separated by commas; for observations in a file: --obs-file o.csv"),
            (["--obs", "1,nan,3"], "obs: value 1 of row 0 is not finite"),
            (["--obs", "1,2,3", "--seed", "9"], "seed: 9 is not in this run; it has 4, 2"),
            (["--obs-file", "none.npy"], "--obs-file none.npy: cannot be read (No such file or directory)"),
            (["--obs-file", "o.txt"], "--obs-file o.txt: must end in .npy, .npz, .csv or .json"),
        ],
    )
    def test_what_is_no_observation(self, arguments: list[str], message: str, mistake: Any, run: Path) -> None:
        assert message in mistake("predict", run, *arguments)

    @pytest.mark.parametrize("words", [["predict", "--obs", "1,2,3"], ["evaluate"]])
    def test_an_exported_policy_is_no_run(self, words: list[str], mistake: Any, tmp_path: Path) -> None:
        (tmp_path / "p.onnx").write_bytes(b"a network")
        told = "p.onnx: is an exported policy, which onnxruntime runs (docs/export.md); here give the run's name"
        assert told in mistake(words[0], "p.onnx", *words[1:])


class TestObservationFiles:
    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("o.npy", b"nonsense", "--obs-file o.npy: not a readable .npy file"),
            ("o.npy", b"", "--obs-file o.npy: not a readable .npy file"),
            ("o.npz", npz(actions=[[1.0]]), "o.npz: has no array 'obs'; it holds actions"),
            ("o.json", b"{", "holds no observations"),
            ("o.json", b"\xff\xfe", "--obs-file o.json: is UTF-16 text; save it as UTF-8"),
            (
                "o.csv",
                "Büro,b,c\n1,2,3\n".encode("cp1252"),
                "o.csv: is not UTF-8 text (byte 0xfc, which Windows",
            ),
            ("o.csv", b"a,b,c\n1,x,3\n", "--obs-file o.csv: column 'b': 'x' at row 0 is not a number"),
            ("o.csv", b"", "--obs-file o.csv: is empty"),
            (
                "o.csv",
                b"obs_0,obs_2,r\n1,2,3\n",
                "obs: columns obs_0 \u2026 obs_2 (2 columns), but number 1 is missing",
            ),
            ("o.csv", b"obs,obs_0,obs_1\n1,2,3\n", "obs: both 'obs' and 'obs_0' hold it"),
            ("o.csv", b"obs_0,obs_1,r\n1,2,3\n", "obs: has shape (1, 2)"),
            ("o.json", b"5", "obs: has shape (1, 1)"),
            ("o.json", b"[[1, 2, NaN]]", "obs: value 2 of row 0 is not finite"),
            ("o.npy", array_with(b"(4, 3), }", b"(4,#3), }"), "--obs-file o.npy: not a readable .npy file"),
            (
                "o.npy",
                lambda path: np.save(path, np.array([{}, 1], dtype=object)),
                "--obs-file o.npy: holds Python objects; give plain numbers",
            ),
            (
                "o.npy",  # beyond float64, and no warning of numpy beside it
                lambda path: np.save(path, np.full((2, 3), np.longdouble("1e4000"))),
                "obs: value 0 of row 0 is not finite",
            ),
            (
                "o.csv",
                b"0x1,2,3\n",
                "--obs-file o.csv: its only line, '0x1,2,3', is taken for names of columns; '0x1' is not a number",
            ),
            (
                "o.csv",
                b"1,5;2,5;3,5\n",
                "'1,5;2,5;3,5', is taken for names of columns; write decimals with a point: '1.5,2.5,3.5'",
            ),
        ],
    )
    def test_refused(self, name: str, content: Any, message: str, mistake: Any, run: Path, tmp_path: Path) -> None:
        put(tmp_path / name, content)
        assert message in mistake("predict", run, "--obs-file", name)

    @pytest.mark.parametrize(
        ("name", "write"),
        [
            ("o.npy", lambda path: np.save(path, np.zeros((0, 3)))),
            ("o.npz", npz(obs=np.zeros((0, 3)))),
            ("o.csv", lambda path: path.write_text("cos,sin,speed\n")),
            ("o.json", lambda path: path.write_text("[]")),
        ],
    )
    def test_without_rows(self, name: str, write: Any, mistake: Any, run: Path, tmp_path: Path) -> None:
        write(tmp_path / name)
        said = mistake("predict", run, "--obs-file", name)
        assert said == f"error: --obs-file {name}: has no rows; each is an observation of 3 values"

    def test_a_folder_of_data_by_the_name_of_a_run(self, command: Any, run: Path, tmp_path: Path) -> None:
        shutil.copytree(run, tmp_path / "runs" / "log")
        (tmp_path / "log").mkdir()
        (tmp_path / "log" / "schema.json").touch()
        there = command("predict", "runs/log", "--obs", "1,0,0")
        assert there.code == 0
        assert command("predict", "log", "--obs", "1,0,0") == there
        (tmp_path / "log" / "config.yaml").touch()  # a run that has lost its run.json is not passed over
        assert "error: log: holds no run" in command("predict", "log", "--obs", "1,0,0").err

    @pytest.mark.parametrize(
        ("name", "content"),
        [("o.npz", b"PK\x03\x04 cut short"), ("o.json", b"[" * 100_000), ("o.npy", "forged")],
    )
    def test_damaged(self, name: str, content: Any, mistake: Any, run: Path, tmp_path: Path) -> None:
        put(tmp_path / name, forged_header() if content == "forged" else content)
        told = mistake("predict", run, "--obs-file", name)
        assert "holds no observations" in told or "not a readable .npz file" in told or "damaged" in told

    @pytest.mark.parametrize(
        ("text", "row"),
        [
            ('[["a", "b", "c"]]', 0),
            ("null", 0),
            ("[1, null, 3]", 0),
            ('[[1, 2, 3], ["1", 2, 3]]', 1),
            ("[[1, 2, 3], [1, 2, 3], [1, true, 3]]", 2),
            ("[[[1, 2, 3]]]", 0),
        ],
    )
    def test_values_that_are_no_numbers(self, text: str, row: int, mistake: Any, run: Path, tmp_path: Path) -> None:
        (tmp_path / "o.json").write_text(text)
        said = mistake("predict", run, "--obs-file", "o.json")
        assert said.startswith(f"error: --obs-file o.json: row {row}: values must be numbers, got ")

    def test_a_byte_order_mark(self, command: Any, run: Path, tmp_path: Path) -> None:
        """As PowerShell writes it."""
        (tmp_path / "o.json").write_bytes(b"\xef\xbb\xbf[[1, 2, 3]]")
        assert command("predict", run, "--obs-file", "o.json").out == command("predict", run, "--obs", "1,2,3").out

    @pytest.mark.parametrize("array", [[["1", "2", "3"]], [[1j, 2, 3]], [[True, False, True]]])
    def test_arrays_that_are_no_numbers(self, array: Any, mistake: Any, run: Path, tmp_path: Path) -> None:
        np.save(tmp_path / "o.npy", np.array(array))
        assert "obs: values must be numbers, not " in mistake("predict", run, "--obs-file", "o.npy")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (f"[[1, 2, 1{'0' * 400}]]", "obs: a value is larger than any floating-point number"),
            ("[[1, 2, 1e300]]", "obs: value 2 of row 0 is not finite (in float32)"),
            ("[[1, 2, 3], [1, 2]]", "obs: every observation must have the same number of values"),
        ],
    )
    def test_numbers_that_do_not_fit(self, text: str, message: str, mistake: Any, run: Path, tmp_path: Path) -> None:
        (tmp_path / "o.json").write_text(text)
        assert mistake("predict", run, "--obs-file", "o.json") == f"error: {message}"


def put(path: Path, content: Any) -> None:
    content(path) if callable(content) else path.write_bytes(content)


def forged_header() -> bytes:
    """An .npy file of a hundred bytes that claims a thousand terabytes."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (2**47, 3)})
    return file.getvalue()


class TestNamedColumns:
    """Policies that were trained on a table know what its columns are called."""

    @pytest.fixture
    def named(self, tmp_path: Path) -> Path:
        rows = [f"{row / 50},{row % 5},{row % 3 - 1},1,{int(row % 10 == 9)}" for row in range(50)]
        (tmp_path / "log.csv").write_text("\n".join(["x,y,u,r,crashed", *rows]) + "\n")
        columns = {"obs": ["x", "y"], "actions": "u", "rewards": "r", "terminations": "crashed"}
        section = {"source": "file", "path": str(tmp_path / "log.csv"), "columns": columns, "missing_words": ["ERR"]}
        return train(small_config(None, tmp_path, name="named", dataset=section)).run.path

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("x,x,y\n0.1,0.9,1\n", "two columns are named 'x'; leave in the one that the policy sees"),
            ("Y,X\n1,0.5\n", "lacks x, y; the policy sees x, y; if 'X' is that, its name must be 'x'"),
            ("x,y\n0.1,1\n0.2,ERR\n0.3,2\n", "column 'y': line 3 has no value, but 'ERR'; fill it in"),
            (
                "x,y\n0.1,1\nn/a,1\n,2\n",
                "column 'x': line 3 has no value, but 'n/a' (2 such rows, the last in line 4); fill it in",
            ),
            ('x,y\n0.1,"1\n0.2,2\n', 'line 2: a quote (") is opened and never closed'),
            ("x,y\n0.1,1_0\n", "column 'y': '1_0' at row 0 is not a number"),
            ("x;y\n0,5;1.234\n0,25;2,5\n", "column 'y': '1.234' at row 0 is not a number; decimals have commas"),
        ],
    )
    def test_files_that_could_be_taken_for_others(
        self, content: str, message: str, mistake: Any, named: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "o.csv").write_text(content)
        assert f"--obs-file o.csv: {message}" in mistake("predict", named, "--obs-file", "o.csv")

    @pytest.mark.parametrize("content", ["x,y\n$0.10,1\n$0.20,2\n", "x;y\n0,10 €;1\n0,20 €;2\n"])
    def test_amounts_with_a_currency(self, content: str, command: Any, named: Path, tmp_path: Path) -> None:
        (tmp_path / "o.csv").write_text(content)
        (tmp_path / "plain.csv").write_text("x,y\n0.1,1\n0.2,2\n")
        told = [command("predict", named, "--obs-file", name) for name in ("o.csv", "plain.csv")]
        assert (told[0].code, told[0].out) == (0, told[1].out)

    @pytest.mark.parametrize("split", [False, True])
    def test_numbers_that_stood_for_missing_values(
        self, split: bool, command: Any, mistake: Any, tmp_path: Path
    ) -> None:
        """Also where the run was trained on a part of the data, written with the values filled in."""
        rows = [f"{row / 50},{-999 if row == 7 else row % 5},{row % 3 - 1},1,{int(row % 10 == 9)}" for row in range(50)]
        (tmp_path / "log.csv").write_text("\n".join(["x,y,u,r,crashed", *rows]) + "\n")
        columns = {"obs": ["x", "y"], "actions": "u", "rewards": "r", "terminations": "crashed"}
        section: dict[str, Any] = {"columns": columns, "missing_words": ["-999"], "missing": "hold"}
        if split:
            TransitionDataset.load("log.csv", **section).save("part.csv")
            section = {}
        place = {"source": "file", "path": str(tmp_path / ("part.csv" if split else "log.csv"))}
        run = train(small_config(None, tmp_path, name="marked", dataset=place | section)).run.path
        told = "-999 stands for a missing value in the data it was trained on (missing_words); a policy acts on numbers"
        assert f"--obs x=0.1,y=-999: column 'y': {told}" in mistake("predict", run, "--obs", "x=0.1,y=-999")
        assert f"--obs 0.1,-999: column 'y': {told}" in mistake("predict", run, "--obs", "0.1,-999")
        np.save("o.npy", np.array([[0.1, 2.0], [0.2, -999.0]]))
        assert f"--obs-file o.npy: row 1: column 'y': {told}" in mistake("predict", run, "--obs-file", "o.npy")
        (tmp_path / "o.csv").write_text("x,y\n0.1,1\n0.2,-999\n")
        assert "column 'y': line 3 has no value, but '-999'" in mistake("predict", run, "--obs-file", "o.csv")
        assert command("predict", run, "--obs", "0.1,-998").code == 0

    @pytest.mark.parametrize("kind", ["f8", "f4"])
    def test_such_numbers_with_decimals_as_arrays_round_them(self, kind: str, mistake: Any, tmp_path: Path) -> None:
        rows = [
            f"{row / 50},{-99.9 if row == 7 else row % 5},{row % 3 - 1},1,{int(row % 10 == 9)}" for row in range(50)
        ]
        (tmp_path / "log.csv").write_text("\n".join(["x,y,u,r,crashed", *rows]) + "\n")
        columns = {"obs": ["x", "y"], "actions": "u", "rewards": "r", "terminations": "crashed"}
        section: dict[str, Any] = {"columns": columns, "missing_words": ["-99.9"], "missing": "hold"}
        place = {"source": "file", "path": str(tmp_path / "log.csv")}
        run = train(small_config(None, tmp_path, name="marked", dataset=place | section)).run.path
        np.save("o.npy", np.array([[0.1, 2.0], [0.2, -99.9]], kind))
        told = (
            "o.npy: row 1: column 'y': -99.9 stands for a missing value in the data it was trained on (missing_words)"
        )
        assert told in mistake("predict", run, "--obs-file", "o.npy")

    def test_rows_that_are_read_in_pieces(
        self, command: Any, mistake: Any, named: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What is wrong is told as if they were read at once."""
        good = "x,y\n" + "".join(f"0.{row},{row % 3}\n" for row in range(1, 10))
        files = {"good": good, "bad": good + "z,1\n0.5,1\nz,1\n", "none": good + "0.5,\n,\n,ERR\n"}
        for name, text in files.items():
            (tmp_path / f"{name}.csv").write_text(text)
        told = []
        for cells in (10**6, 2):
            monkeypatch.setattr(observation_files, "_CELLS_AT_A_TIME", cells)
            refused = [mistake("predict", named, "--obs-file", f"{name}.csv") for name in ("bad", "none")]
            told.append((command("predict", named, "--obs-file", "good.csv"), *refused))
        assert told[0] == told[1]
        assert "column 'x': 'z' at row 9 is not a number (line 11, 2 such cells)" in told[1][1]
        assert "column 'x': line 12 has no value (2 such rows, the last in line 13)" in told[1][2]

    def test_names_of_an_archive(self, command: Any, mistake: Any, named: Path, tmp_path: Path) -> None:
        for name, obs in (("same", ["x", "y"]), ("turned", ["y", "x"])):
            columns = {"obs": obs, "actions": "u", "rewards": "r", "terminations": "crashed"}
            TransitionDataset.load("log.csv", columns=columns).save(f"{name}.npz")
        assert command("predict", named, "--obs-file", "same.npz").code == 0
        told = mistake("predict", named, "--obs-file", "turned.npz")
        assert "--obs-file turned.npz: obs are y, x, in that order, and the policy was trained on x, y" in told

    @pytest.mark.parametrize(
        ("obs", "words", "message"),
        [
            (
                ["x", "door"],
                {"shut": 1, "open": 0},
                "words of 'door' stand for shut 1, open 0, and the policy was trained on",
            ),
            (
                ["door", "x"],
                {"shut": 0, "open": 1},
                "obs are door, x, in that order, and the policy",
            ),
            (["x", "door"], {"shut": 0, "open": 1}, None),
        ],
    )
    def test_words_and_names_of_an_archive(
        self, obs: list[str], words: dict[str, int], message: str | None, command: Any, tmp_path: Path
    ) -> None:
        rows = [
            f"{row},{row % 5},{('shut', 'open')[row % 2]},{row % 3 - 1},1,{int(row % 10 == 9)}" for row in range(50)
        ]
        (tmp_path / "log.csv").write_text("\n".join(["x,y,door,u,r,crashed", *rows]) + "\n")
        columns = {"obs": ["x", "door"], "actions": "u", "rewards": "r", "terminations": "crashed"}
        said = {"columns": columns, "words": {"door": {"shut": 0, "open": 1}}}
        section = {"source": "file", "path": str(tmp_path / "log.csv"), **said}
        run = train(small_config(None, tmp_path, name="doors", dataset=section)).run.path
        TransitionDataset.load("log.csv", columns=columns | {"obs": obs}, words={"door": words}).save("o.npz")
        code, _, err = command("predict", run, "--obs-file", "o.npz")
        assert (code == 0) if message is None else (code == 2 and f"--obs-file o.npz: {message}" in err)

    def test_other_names_go_by_their_place(self, command: Any, named: Path, tmp_path: Path) -> None:
        (tmp_path / "o.csv").write_text("a,b\n0.1,1\n")
        (tmp_path / "own.csv").write_text("y,z,x\n1,7,0.1\n")
        code, out, err = command("predict", named, "--obs-file", "o.csv")
        assert code == 0
        assert "note: o.csv has none of the policy's names: columns are taken in its order, x, y" in err
        assert out == command("predict", named, "--obs-file", "own.csv").out

    def test_numbers_go_in_their_order(self, command: Any, named: Path, tmp_path: Path) -> None:
        (tmp_path / "own.csv").write_text("x,y\n0.1,1\n")
        expected = command("predict", named, "--obs-file", "own.csv")
        for header in ("obs_1,obs_0", "observations_2,observations_1"):
            (tmp_path / "o.csv").write_text(f"{header}\n1,0.1\n")
            assert command("predict", named, "--obs-file", "o.csv") == expected

    def test_numbers_that_are_names_of_the_policy(self, command: Any, tmp_path: Path) -> None:
        """Columns that were chosen in another order are still called so."""
        rows = [f"{row / 50},{row % 5},{row % 3 - 1},1,{int(row % 10 == 9)}" for row in range(50)]
        (tmp_path / "log.csv").write_text("\n".join(["obs_0,obs_1,u,r,crashed", *rows]) + "\n")
        columns = {"obs": ["obs_1", "obs_0"], "actions": "u", "rewards": "r", "terminations": "crashed"}
        section = {"source": "file", "path": str(tmp_path / "log.csv"), "columns": columns}
        run = train(small_config(None, tmp_path, name="turned", dataset=section)).run.path
        (tmp_path / "o.csv").write_text("obs_0,obs_1\n0.1,3\n")
        assert command("predict", run, "--obs-file", "o.csv").out == command("predict", run, "--obs", "3,0.1").out

    def test_words_of_flags(self, command: Any, tmp_path: Path) -> None:
        """The same that a file may have, where the data were read by them."""
        rows = [f"{row / 50},{('no', 'yes')[row % 2]},{row % 3 - 1},1,{int(row % 10 == 9)}" for row in range(50)]
        (tmp_path / "log.csv").write_text("\n".join(["x,Rain,u,r,crashed", *rows]) + "\n")
        columns = {"obs": ["x", "Rain"], "actions": "u", "rewards": "r", "terminations": "crashed"}
        section = {"source": "file", "path": str(tmp_path / "log.csv"), "columns": columns}
        run = train(small_config(None, tmp_path, name="wet", dataset=section)).run.path
        expected = command("predict", run, "--obs", "0.1,1")
        assert command("predict", run, "--obs", "x=0.1,Rain=yes") == expected
        assert command("predict", run, "--obs", "0.1,YES") == expected
        assert command("predict", run, "--obs", "x=0.1").err.rstrip().endswith(": --obs x=0.1,Rain=0")

    def test_a_refusal_is_one_line(self, mistake: Any, command: Any, named: Path, tmp_path: Path) -> None:
        """What would be noted of the observations is not, where they are refused."""
        (tmp_path / "o.csv").write_text("a,b\n0.1,1e400\n")
        for words in (["--obs", "x=1e400,y=9"], ["--obs", "1e400,9"], ["--obs-file", "o.csv"]):
            assert "is not finite" in mistake("predict", named, *words)
        assert "seed: 9 is not in this run" in mistake("predict", named, "--obs", "x=50,y=9", "--seed", 9)
        noted = [
            "warning: outside what was seen in training: x 50.0 (0.0 to 0.98), y 9 (0.0 to 4)",
            "note: actions are u",
        ]
        assert command("predict", named, "--obs", "x=50,y=9").err.splitlines() == noted
        assert command("predict", named, "--obs", "x=1.9,y=7.9").err.startswith("note: outside what was seen")
        assert command("predict", named, "--obs", "x=-0.99,y=4").err.startswith("warning: outside what was seen")

    def test_json_by_name(self, mistake: Any, command: Any, named: Path, run: Path, tmp_path: Path) -> None:
        """As columns of a CSV file are: in any order, among others."""
        (tmp_path / "o.json").write_text('[{"y": 2, "who": "KB", "x": 0.5}, {"x": 0.1, "y": 3}]')
        expected = command("predict", named, "--obs", "0.5,2", "--obs", "0.1,3").out
        assert command("predict", named, "--obs-file", "o.json").out == expected
        (tmp_path / "o.json").write_text('{"y": 2, "x": 0.5}')
        assert command("predict", named, "--obs-file", "o.json").out == expected.splitlines()[0] + "\n"
        for text, said in (
            ('{"y": null, "x": 0.5}', "row 0: column 'y' must be one number, got null; a policy acts on numbers alone"),
            ('[{"y": 2, "x": 1}, {"y": "2", "x": 1}]', "row 1: column 'y' must be one number, got '2'"),
            ('[{"y": 2, "x": 1}, {"y": true, "x": 1}]', "row 1: column 'y' must be one number, got True"),
            ('{"y": 2}', "row 0: lacks x; the policy sees x, y"),
            ('[{"y": 2, "x": 1}, [1, 2]]', "row 1: must be an object as the others are, got [1, 2]"),
            ("[1, null]", "row 0: values must be numbers, got null; a policy acts on numbers alone"),
        ):
            (tmp_path / "o.json").write_text(text)
            assert mistake("predict", named, "--obs-file", "o.json").startswith(f"error: --obs-file o.json: {said}")
        (tmp_path / "o.json").write_text('{"obs": [1, 2, 3]}')
        assert "this policy knows no names; give lists of numbers" in mistake("predict", run, "--obs-file", "o.json")

    def test_a_run_that_starts_from_it_has_the_same_order(self, named: Path, tmp_path: Path) -> None:
        columns = {"obs": ["y", "x"], "actions": "u", "rewards": "r", "terminations": "crashed"}
        section = {"source": "file", "path": str(tmp_path / "log.csv"), "columns": columns}
        config = small_config(None, tmp_path, name="next", dataset=section, init_from=str(named))
        with pytest.raises(DataError, match="dataset: obs are y, x, in that order, and the policy was trained on x, y"):
            train(config)
        assert not (tmp_path / "next").exists()


class TestTypedUnits:
    """Numbers as people have them before their eyes."""

    @pytest.mark.parametrize(
        ("given", "told"),
        [
            ("1,80kW,3", "'80kW' has a unit: give the number alone, in the unit of the data: --obs 1,80,3"),
            ("1, 40 %,3", "'40 %' has a unit: give the number alone, in the unit of the data: --obs 1,40,3"),
            ("\u22121,2,3", "must be numbers separated by commas; a minus is typed as -: --obs -1,2,3"),
            ('{"x": 1, "y": 2}', "must be numbers separated by commas, or by name: --obs x=1,y=2"),
            ("[1, two, 3]", "must be numbers separated by commas"),
            ("{1,2,3}", "must be numbers separated by commas"),
        ],
    )
    def test_are_named(self, given: str, told: str, mistake: Any, run: Path) -> None:
        assert told in mistake("predict", run, "--obs", given)

    def test_quoted_twice(self, command: Any, run: Path) -> None:
        assert command("predict", run, "--obs", "'1,2,3'").out == command("predict", run, "--obs", "1,2,3").out
