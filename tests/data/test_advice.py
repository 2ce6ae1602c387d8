"""Files of other habits: read where nothing is in doubt, else told what to do, in one line."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.data.formats.peek import peek
from rl_training.errors import DataError
from sick_data import codes, healthy


def refusal(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        TransitionDataset.load(path)
    message = str(caught.value).removeprefix(f"{path}: ")
    assert "\n" not in message
    return message


def lines(separator: str = ",", **changes: list[Any]) -> str:
    columns: dict[str, list[Any]] = {"obs": [0.5, 1.5, 2.5], "actions": [0.1, 0.2, 0.3], "rewards": [1, 2, 3]}
    columns |= {"terminated": [0, 0, 1], **changes}
    rows = [columns, *zip(*columns.values(), strict=True)]
    return "\n".join(separator.join(map(str, row)) for row in rows) + "\n"


class TestText:
    def write(self, folder: Path, text: str, name: str = "log.csv") -> Path:
        path = folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def test_bars_separate(self, tmp_path: Path) -> None:
        dataset = TransitionDataset.load(self.write(tmp_path, lines("|")))
        assert (dataset.origin, len(dataset)) == ("CSV, separated by bars", 3)

    @pytest.mark.parametrize("fast", [True, False])
    def test_decimal_commas(self, fast: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        if not fast:
            monkeypatch.setattr("rl_training.data.formats.csv._read_fast", lambda *_, **__: None)
        path = self.write(tmp_path, lines(";").replace(".", ","))
        dataset = TransitionDataset.load(path)
        assert dataset.obs[:, 0].tolist() == [0.5, 1.5, 2.5]
        assert dataset.notes == ("decimals are read with a comma",)
        assert peek(path, 3).columns["obs"].tolist() == [0.5, 1.5, 2.5]

    @pytest.mark.parametrize("fast", [True, False])
    def test_a_word_among_decimal_commas(self, fast: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        if not fast:
            monkeypatch.setattr("rl_training.data.formats.csv._read_fast", lambda *_, **__: None)
        path = self.write(tmp_path, lines(";").replace(".", ",").replace("1,5", "ERR"))
        assert refusal(path).startswith("column 'obs': 'ERR' at row 1 is not a number (line 3); if it stands for")
        dataset = TransitionDataset.load(path, missing_words=["ERR"], missing="hold")
        assert dataset.obs[:, 0].tolist() == [0.5, 0.5, 2.5]

    @pytest.mark.parametrize("odd", ["1,234", "1,5"])
    def test_commas_that_may_be_anything_are_refused(self, odd: str, tmp_path: Path) -> None:
        """A thousand, or a slip among numbers with a point."""
        columns: dict[str, list[Any]] = {"obs": [0.5, 1.5, 2.5]} if odd == "1,5" else {"obs": [1, 2, 3]}
        columns |= {"actions": [odd, odd, odd]} | ({} if odd == "1,5" else {"rewards": [1, 2, 3]})
        assert "write decimals with a point" in refusal(self.write(tmp_path, lines(";", **columns)))

    def test_spaces_do_not(self, tmp_path: Path) -> None:
        message = refusal(self.write(tmp_path, lines(" "), "log.txt"))
        assert message.endswith("it is text without commas, semicolons, tabs or bars (|) between its columns;"
                                " write it with one of them")  # fmt: skip

    def test_a_header_in_angle_brackets(self, tmp_path: Path) -> None:
        message = refusal(self.write(tmp_path, lines(" , ").replace("obs", "<obs>")))
        assert message.endswith(": it begins with <, as HTML and XML do; write it as CSV, with a header that begins"
                                " with a letter")  # fmt: skip

    def test_a_header_in_square_brackets(self, tmp_path: Path) -> None:
        message = refusal(self.write(tmp_path, lines(" , ").replace("obs", " [obs]")))
        assert "lacks obs; the data have [obs], actions, rewards, terminated;" in message

    def test_no_header(self, tmp_path: Path) -> None:
        text = lines(terminated=[False, False, True]).partition("\n")[2]
        assert refusal(self.write(tmp_path, text)).endswith(
            "the first line holds values, not names, so columns go by position"
        )

    def test_yes_and_no(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, lines(terminated=["no", "no", "yes"]))
        assert TransitionDataset.load(path).terminations.tolist() == [False, False, True]
        message = refusal(self.write(tmp_path, lines(terminated=["no", "no", "NA"])))
        assert message.startswith("column 'terminated': 'NA' at row 2 is not a number; a missing value: fill it in")

    @pytest.mark.parametrize("fast", [True, False])
    def test_dates_tell_the_order(self, fast: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        if not fast:
            monkeypatch.setattr("rl_training.data.formats.csv._read_fast", lambda *_, **__: None)
        times = [f"2024-01-01 00:00:0{second}.500" for second in (2, 0, 1)]
        path = self.write(tmp_path, lines(terminated=[1, 0, 0], time=times, episode=[0, 0, 0]))
        dataset = TransitionDataset.load(path, columns={"step": "time"})
        assert dataset.obs[:, 0].tolist() == [1.5, 2.5, 0.5]
        assert dataset.n_episodes == 1
        path = self.write(tmp_path, lines(time=["2024-01-01", "soon", "2024-01-02"]))
        with pytest.raises(DataError, match=r"column 'time': 'soon' at row 1 is neither a number nor a time; write"):
            TransitionDataset.load(path, columns={"step": "time"})

    def test_ids_are_no_steps(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, lines(ride=["R0001", "R0001", "R0002"]))
        way = r"'R0001' at row 0 is neither .*; if it tells episodes apart, columns: \{episode_ids: ride\}"
        with pytest.raises(DataError, match=way):
            TransitionDataset.load(path, columns={"step": "ride"})

    def test_dates_of_a_frame(self) -> None:
        pandas = pytest.importorskip("pandas")
        times = pandas.to_datetime(["2024-01-01 00:00:02", "2024-01-01 00:00:00", "2024-01-01 00:00:01"])
        frame = pandas.DataFrame({"obs": [0.5, 1.5, 2.5], "actions": [0.1, 0.2, 0.3], "rewards": 1.0})
        frame["time"], frame["episode"] = times, 0
        dataset = TransitionDataset.from_table(frame, {"step": "time"})
        assert dataset.obs[:, 0].tolist() == [1.5, 2.5, 0.5]


class TestArrays:
    def test_batches_of_episodes(self, tmp_path: Path) -> None:
        rng = np.random.default_rng(0)
        arrays: dict[str, Any] = {"rewards": rng.normal(size=(5, 40)), "terminations": np.zeros((5, 40))}
        arrays |= {"obs": rng.normal(size=(5, 40, 3)), "actions": rng.normal(size=(5, 40, 2))}
        finding = codes(arrays)["fields.shape"]
        assert finding.advice == "Give it as [rows] or [rows, 1]; of [episodes, steps] make one by reshape(-1)."
        finding = codes({name: arrays[name] for name in ("obs", "rewards")})["fields.shape"]
        assert "reshape(-1, 3)" in finding.advice
        assert "np.repeat(np.arange(5), 40)" in finding.advice
        np.savez(tmp_path / "log.npz", **arrays)
        assert "shape (5, 40" in refusal(tmp_path / "log.npz")

    def test_transposed(self, tmp_path: Path) -> None:
        arrays = healthy()
        arrays |= {name: arrays[name].T for name in ("obs", "actions", "next_obs")}
        finding = codes(arrays)["fields.shape"]
        assert finding.what.endswith("which looks transposed: rewards has 1,332 rows.")
        assert finding.advice == "Give it as [rows, columns]: obs.T."
        np.savez(tmp_path / "log.npz", **arrays)
        assert "looks transposed, as rewards has 1332 rows; give obs.T" in refusal(tmp_path / "log.npz")

    def test_dones_that_mark_every_end(self) -> None:
        arrays = healthy()
        arrays["dones"] = arrays.pop("terminations") | arrays["truncations"]
        assert "dones_are: ends" in codes(arrays)["flags.overlap"].advice


class TestPlaces:
    def test_a_link_to_nowhere(self, tmp_path: Path) -> None:
        path = tmp_path / "log.csv"
        path.symlink_to(tmp_path / "gone.csv")
        assert refusal(path) == f"is a link to '{tmp_path}/gone.csv', and nothing is there"

    def test_a_zipped_table(self, tmp_path: Path) -> None:
        with zipfile.ZipFile(tmp_path / "log.zip", "w") as archive:
            archive.writestr("log.csv", "obs,actions\n")
        assert refusal(tmp_path / "log.zip").endswith("it holds log.csv; unpack it, and give what is inside")

    @pytest.mark.parametrize("name", ["a.h5", "a.npz"])
    def test_a_folder_of_files(self, name: str, tmp_path: Path) -> None:
        (tmp_path / name).write_text("x")
        assert "name each as a part of a mixture" in refusal(tmp_path)

    def test_observations_in_a_group(self, tmp_path: Path) -> None:
        path = tmp_path / "log.hdf5"
        with h5py.File(path, "w") as file:
            file["observations/pos"], file["observations/vel"] = np.eye(4)[:, :2], np.ones((4, 1))
            file["actions"], file["rewards"], file["terminals"] = np.ones((4, 1)), np.ones(4), np.zeros(4)
        assert refusal(path).endswith("columns: {obs: [observations/pos, observations/vel]}")
        mapping = {"obs": ["observations/pos", "observations/vel"]}
        assert TransitionDataset.load(path, columns=mapping).obs_dim == 3
