"""`benchmarks/faults.py`: the faults are put as described, and the table says what came of them."""

from __future__ import annotations

import importlib
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture
def cases(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("fault_cases")


@pytest.fixture
def fault_page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("fault_page")


class Plain:
    """A program that writes its one number over the old one, and cannot tell damage from anything else."""

    styles = ("one name", "a name per step")

    def fresh(self, folder: Path) -> Any:
        return np.arange(4.0)

    def save(self, model: Any, folder: Path, step: int, style: str) -> None:
        (folder / ("model" if style == "one name" else f"model-{step:09}")).write_bytes(model.tobytes())

    def newest_files(self, folder: Path) -> list[Path]:
        return sorted(folder.glob("model*"))[-1:]

    def load_newest(self, folder: Path) -> Any:
        loaded = np.frombuffer(self.newest_files(folder)[0].read_bytes())
        if len(loaded) != 4:
            raise ValueError("cut short")
        return loaded

    def weights(self, model: Any) -> dict[str, Any]:
        return {"numbers": model}


def test_every_flipped_bit_is_in_the_newest_and_is_turned_back(cases: ModuleType, tmp_path: Path) -> None:
    found = cases.flip_bits(Plain(), tmp_path, 20)
    assert found == {"tries": 20, "unnoticed, weights differ": 20, "words": ""}
    assert (Plain().load_newest(tmp_path) == np.arange(4.0)).all()


def test_a_limit_on_files_stands_for_a_full_disk(
    cases: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cases.shutil, "which", lambda name: None)
    found = cases.full_disk(Plain(), tmp_path)
    assert {about["how"] for about in found.values()} == {"a limit on the size of files"}
    assert "File too large" in found["one name"]["saving"]
    assert not any(about["newest loads"] for about in found.values())
    assert [found[style]["last good one loads"] for style in Plain.styles] == [False, True]


def test_what_is_accepted_warned_of_and_refused(cases: ModuleType) -> None:
    def warn() -> None:
        import warnings

        warnings.warn("careful", stacklevel=1)

    assert cases.outcome(lambda: None) == {"is": "accepted"}
    assert cases.outcome(warn) == {"is": "warned", "words": "careful"}
    assert cases.outcome(lambda: {}["x"]) == {"is": "refused", "words": "KeyError: 'x'"}


def test_each_corrupt_dataset_has_one_thing_wrong(cases: ModuleType) -> None:
    whole = cases.made_up()
    found = cases.corrupt(cases.made_up)
    assert len(found) == 8
    for name, arrays in found.items():
        differing = [key for key in whole if not np.array_equal(whole[key], arrays[key])]
        assert len(differing) == 1, name


class Sleeper:
    """Something that trains until it is told to stop, and does not listen."""

    def newest_files(self, folder: Path) -> list[Path]:
        return [folder / "started"]

    def after_signal(self, folder: Path) -> dict[str, Any]:
        return {}


def test_the_end_by_a_signal_is_told(cases: ModuleType, tmp_path: Path) -> None:
    program = "import pathlib, sys, time; (pathlib.Path(sys.argv[-1]) / 'started').touch(); time.sleep(60)"
    found = cases.terminate(Sleeper(), tmp_path, [sys.executable, "-c", program])
    assert found["exit code"] == f"killed by {signal.SIGTERM.name}"
    assert found["checkpoint after the signal"] is False


def test_the_table_says_what_is_stored(fault_page: ModuleType) -> None:
    one, each = {"unloadable": 24, "complete saves lost": 0}, {"unloadable": 0, "complete saves lost": 0}
    results = {
        "products": {
            "d3rlpy": {
                "versions": {"d3rlpy": "2.8.1"},
                "rows": {
                    "kill": {"tries": 25, "one name": one, "a name per step": each},
                    "flip": {"tries": 40, "noticed": 1, "unnoticed, weights differ": 39},
                    "resume": {"failure": "ValueError: no"},
                },
            },
            "ours": {
                "versions": {"rl_training": "0.1.0"},
                "rows": {
                    "kill": {"tries": 1000, "a name per step": each},
                    "bombs": {"hdf5": {"is": "refused", "words": "DataError: x", "seconds": 0.1, "mebibytes": 3},
                              "zip": {"none": "reads none"}},
                },
            },
        }
    }  # fmt: skip
    text = fault_page.page(f"# Page\n{fault_page.START}\nold\n{fault_page.END}\nend\n", results)
    lines = text.splitlines()
    assert (lines[0], lines[-1]) == ("# Page", "end")
    assert "old" not in lines
    for line in (
        "| fault | d3rlpy 2.8.1 | Stable-Baselines3 | Minari | here |",
        "| `kill -9` while saving, then load | the file 24 of 25 unloadable; the newest 0 of 25 unloadable |  |  |"
        " 0 of 1,000 unloadable; 0 complete saves lost |",
        "| one flipped bit in a checkpoint | 1 of 40 noticed; 39 loaded with other weights |  |  |  |",
        "| stop, resume | not measured: ValueError: no |  |  |  |",
        "| a small HDF5 file that declares 4 TiB |  |  |  | refused (`DataError`) after 0.10 s, 3 MiB |",
        "| a file that unpacks to a gibibyte |  |  |  | reads none |",
    ):
        assert line in lines
