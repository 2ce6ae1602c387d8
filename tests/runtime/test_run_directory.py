"""The directory of a run: names, records, and what is said when it is not there."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from rl_training.data.generation import generate_pendulum_dataset
from rl_training.errors import CheckpointError, ConfigError
from rl_training.experiment import manager
from rl_training.experiment.run_listing import summarise
from rl_training.experiment.shipping import card
from rl_training.runtime import run_directory
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.loop import Loop
from rl_training.runtime.records import EVALUATION_METRICS, Records, entries
from rl_training.runtime.run_directory import RunDirectory, load_any
from rl_training.runtime.trainer import train
from small_runs import StopAt, files_under, script_scores, small_config

pytestmark = pytest.mark.usefixtures("saved_at_once")

FACTS = {"fingerprint": "0" * 64, "return_mean": -1.0}
EVALUATION = {"step": 10, "seeds": [0], "episodes": 2, **{name: [1.0] for name in EVALUATION_METRICS}}


@pytest.fixture
def config(tmp_path: Path) -> TrainConfig:
    return small_config(None, tmp_path / "runs", name="first")


@pytest.fixture
def run(config: TrainConfig) -> RunDirectory:
    return RunDirectory.create(config, FACTS)


class TestCreate:
    def test_holds_the_complete_configuration_and_the_circumstances(
        self, run: RunDirectory, config: TrainConfig
    ) -> None:
        assert sorted(files_under(run.path)) == ["config.yaml", "run.json"]
        assert TrainConfig.parse(yaml.safe_load((run.path / "config.yaml").read_text())) == config
        facts = run.describe()
        assert facts["status"] == "running"
        assert facts["dataset"] == FACTS
        assert set(facts["versions"]) >= {"rl_training", "python", "torch", "numpy"}

    def test_data_of_very_many_columns(self, config: TrainConfig) -> None:
        names = [{"name": f"sensor {i} of the machine", "low": -1.5, "high": 2.5} for i in range(60_000)]
        run = RunDirectory.create(config, {**FACTS, "obs_columns": names})
        assert (run.path / "run.json").stat().st_size > 2**22
        run.note(step=3)
        assert run.describe()["dataset"]["obs_columns"] == names

    def test_a_name_that_is_taken(self, run: RunDirectory, config: TrainConfig) -> None:
        before = files_under(run.path)
        with pytest.raises(ConfigError) as caught:
            RunDirectory.create(config, FACTS)
        assert str(caught.value) == (
            f"name: run {run.path} exists already; choose another, or continue it with `rl-training resume {run.path}`"
        )
        assert files_under(run.path) == before

    def test_a_name_that_is_taken_by_one_at_its_end_or_at_work(self, run: RunDirectory, config: TrainConfig) -> None:
        with run.lock(), pytest.raises(ConfigError, match=r"exists already, and is being trained; choose another$"):
            RunDirectory.create(config, FACTS)
        run.note(status="finished")
        with pytest.raises(ConfigError, match=r"or train it longer: `rl-training resume \S+ --total-timesteps N`$"):
            RunDirectory.create(config, FACTS)

    def test_a_place_that_cannot_be_written(self, tmp_path: Path) -> None:
        (tmp_path / "runs").write_text("a file")
        for folder in ("runs", "runs/below"):
            with pytest.raises(ConfigError) as caught:
                RunDirectory.create(small_config(None, tmp_path / folder), FACTS)
            why = f"{tmp_path / 'runs'} is not a folder"
            assert str(caught.value) == f"runs_dir: the folder {tmp_path / folder} cannot be made ({why})"

    @pytest.mark.skipif(not Path("/proc/1").is_dir(), reason="this system has no /proc")
    def test_a_place_where_nothing_can_be_made(self) -> None:
        for folder in ("/proc/1/foo", "/proc/1/foo/bar"):
            with pytest.raises(ConfigError) as caught:
                RunDirectory.create(small_config(None, Path(folder)), FACTS)
            why = "nothing can be made in /proc/1"
            assert str(caught.value) == f"runs_dir: the folder {folder} cannot be made ({why})"

    def test_a_made_up_name_says_algorithm_and_task(self, tmp_path: Path) -> None:
        config = small_config(None, tmp_path, name=None, env_id="ALE/Pong-v5")
        name = RunDirectory.create(config, FACTS).path.relative_to(tmp_path)
        assert str(name).startswith("bc-ale-pong-v5-20")
        assert len(name.parts) == 1
        assert RunDirectory.create(small_config(None, tmp_path, name=None), FACTS).path.name.startswith("bc-data-20")

    def test_made_up_names_never_collide(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(time, "strftime", lambda *_: "20250101-000000")
        config = small_config(None, tmp_path, name=None)
        first, second = RunDirectory.create(config, FACTS), RunDirectory.create(config, FACTS)
        assert first.path != second.path

    def test_the_home_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        run = RunDirectory.create(small_config(None, Path("~/runs")), FACTS)
        assert run.path.resolve() == (tmp_path / "runs" / "run").resolve()


class TestAWorkingFolderThatChanges:
    def test_in_the_middle_of_what_another_thread_writes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The environment of the main thread goes elsewhere between a path's being looked up and its use."""
        monkeypatch.chdir(tmp_path)
        run = RunDirectory.create(small_config(None, Path("runs")), FACTS)

        def elsewhere(function: Any) -> Any:
            def called(*arguments: Any) -> Any:
                monkeypatch.chdir(tmp_path.parent)
                return function(*arguments)

            return called

        for name in ("read_description", "steps_in"):
            monkeypatch.setattr(run_directory, name, elsewhere(getattr(run_directory, name)))
        found: list[Any] = []
        for task in (
            lambda: run.note(x=1),
            lambda: found.append(run.describe()["x"]),
            lambda: found.append(run.steps()),
        ):
            monkeypatch.chdir(tmp_path)
            thread = threading.Thread(target=task)
            thread.start()
            thread.join()
        assert found == [1, []]


class TestOpen:
    def test_a_missing_run_lists_its_neighbours(self, run: RunDirectory) -> None:
        runs = run.path.parent
        with pytest.raises(CheckpointError) as caught:
            RunDirectory.open(runs / "frist")
        assert str(caught.value) == f"{runs / 'frist'}: no such run; runs in {runs}: first; did you mean 'first'?"

    def test_a_folder_that_is_no_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)  # the message lists runs of the present folder, and neighbours
        (tmp_path / "empty").mkdir()
        with pytest.raises(CheckpointError, match=r"holds no run \(no run.json\)$"):
            RunDirectory.open(tmp_path / "empty")

    def test_five_neighbours_at_most(self, tmp_path: Path) -> None:
        for i in range(7):
            RunDirectory.create(small_config(None, tmp_path, name=f"r{i}"), FACTS)
        with pytest.raises(CheckpointError, match=r": r2, r3, r4, r5, r6$"):
            RunDirectory.open(tmp_path / "x")

    def test_a_bare_name_is_looked_for_in_runs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        RunDirectory.create(small_config(None, Path("runs"), name="first"), FACTS)
        with pytest.raises(CheckpointError, match=r"runs in runs: first|runs/first"):
            RunDirectory.open(Path("first"))

    @pytest.mark.parametrize("text", ["", "{", "\x00"])
    def test_a_damaged_run_json(self, text: str, run: RunDirectory) -> None:
        (run.path / "run.json").write_text(text)
        with pytest.raises(CheckpointError, match=r"run\.json: cannot be read"):
            run.describe()

    @pytest.mark.parametrize("text", ["3", "null", "[1]"])
    def test_a_run_json_of_another_kind(self, text: str, run: RunDirectory) -> None:
        (run.path / "run.json").write_text(text)
        with pytest.raises(CheckpointError, match=r"run\.json"):
            run.describe()


class TestRecords:
    def test_come_back_in_order(self, run: RunDirectory) -> None:
        assert run.records("metrics") == []
        for step in (1, 2):
            run.append("metrics", {"step": step, "a": [0.1, -2.5e-17]})
        assert run.records("metrics") == [{"step": step, "a": [0.1, -2.5e-17]} for step in (1, 2)]

    def test_a_line_cut_short_is_no_record(self, run: RunDirectory) -> None:
        whole = {"step": 1, "a": [0.5]}
        run.append("metrics", whole)
        line = json.dumps({"step": 2, "a": [0.25]})
        for length in range(1, len(line) + 1):
            (run.path / "metrics.jsonl").write_text(json.dumps(whole) + "\n" + line[:length])
            assert run.records("metrics") == [whole]

    @pytest.mark.parametrize("line", [b"\x00\x00\x00\n", b"{\n", b"\xff\xfe\n"])
    def test_a_damaged_line_is_named(self, line: bytes, run: RunDirectory) -> None:
        run.append("metrics", {"step": 1})
        with (run.path / "metrics.jsonl").open("ab") as file:
            file.write(line)
        with pytest.raises(CheckpointError, match=r"metrics\.jsonl.*line 2"):
            run.records("metrics")

    def test_rewind_forgets_what_came_later(self, run: RunDirectory) -> None:
        for kind in ("metrics", "evaluations", "timing"):
            for step in (5, 10, 15):
                run.append(kind, EVALUATION | {"step": step, "value": [step / 3]})
        (run.path / "metrics.jsonl").write_bytes((run.path / "metrics.jsonl").read_bytes() + b'{"step": 20')
        first_two = b"".join((run.path / "metrics.jsonl").read_bytes().splitlines(keepends=True)[:2])
        run.rewind(10)
        for kind in ("metrics", "evaluations", "timing"):
            assert [r["step"] for r in run.records(kind)] == [5, 10]
        assert (run.path / "metrics.jsonl").read_bytes() == first_two

    @pytest.mark.parametrize(
        ("lines", "told"),
        [
            ([0, 1, 4, 5], "4 of the 6 records up to step 60 are there; none between step 20 and 50;"),
            ([3, 4, 5], "3 of the 6 records up to step 60 are there; none between step 0 and 40;"),
            ([0, 1, 2, 2, 3, 4, 5], "1 record stood there more than once (the first of step 30), which is put right;"),
            ([1, 0, 2, 3, 4, 5], "records were out of order, which is put right;"),
            ([0, 1, 2, 3, 4, "edited"], "the records up to step 60 are not those that were written;"),
            ([0, 1, "{", 3, 4, 5], "5 of the 6 records up to step 60 are there; none between step 20 and 40;"),
        ],
    )
    def test_what_was_done_to_them_since_is_said_and_kept_aside(
        self, lines: list[Any], told: str, run: RunDirectory
    ) -> None:
        for step in range(10, 80, 10):
            run.append("metrics", {"step": step, "value": [step / 3]})
            if step == 60:
                tallies = run.tallies()
        file = run.path / "metrics.jsonl"
        written = file.read_text().splitlines(keepends=True)
        own = {"edited": written[5].replace("20.0", "21.0"), "{": "{\n"}
        found = "".join(own[line] if isinstance(line, str) else written[line] for line in lines) + written[6]
        file.write_text(found)
        (warning,) = RunDirectory(run.path).rewind(60, 0, tallies)
        assert warning.startswith(f"warning: {file}: {told} kept as it was in metrics.jsonl.aside. The policy")
        assert (run.path / "metrics.jsonl.aside").read_text() == found
        if "put right" in told:
            assert file.read_text() == "".join(written[:6])

    def test_nothing_is_said_of_what_is_as_it_was(self, run: RunDirectory) -> None:
        for step in range(10, 80, 10):
            run.append("metrics", {"step": step, "value": [step / 3]})
            if step == 60:
                tallies = run.tallies()
        again = RunDirectory(run.path)
        assert again.rewind(60, 0, tallies) == []
        assert again.tallies() == tallies
        (run.path / "metrics.jsonl").unlink()
        (warning,) = RunDirectory(run.path).rewind(60, 0, tallies)
        assert "0 of the 6 records up to step 60 are there. The policy" in warning
        assert not (run.path / "metrics.jsonl").exists()

    @pytest.mark.parametrize("end", [b"", b"\n"])
    def test_a_line_without_end_is_not_read_to_its_end(self, end: bytes, run: RunDirectory) -> None:
        run.append("metrics", {"step": 1})
        file = run.path / "metrics.jsonl"
        with file.open("ab") as stream:
            stream.truncate(10**12)  # a hole: nothing is stored
            stream.write(end)
        with pytest.raises(CheckpointError, match=r"line 2 is longer than any record \(16,777,216 bytes\)$"):
            run.records("metrics")
        (warning,) = RunDirectory(run.path).rewind(1)
        assert "metrics.jsonl: 1 line could not be read; kept as it was in metrics.jsonl.aside" in warning
        assert run.records("metrics") == [{"step": 1}]
        (run.path / "metrics.jsonl.aside").unlink()

    @pytest.mark.parametrize("blank", [b"\n", b" \r\n"])
    def test_blank_lines_are_no_records(self, blank: bytes, run: RunDirectory) -> None:
        run.append("metrics", {"step": 1})
        with (run.path / "metrics.jsonl").open("ab") as stream:
            stream.write(blank * 3_000_000 + b'{"step": 2}\nx\n')
        began = time.process_time()
        with pytest.raises(CheckpointError, match=r"line 3000003 is damaged$"):
            run.records("metrics")
        assert time.process_time() - began < 3.0

    def test_a_file_of_rubbish_is_not_read_to_its_end(self, run: RunDirectory) -> None:
        (run.path / "metrics.jsonl").write_bytes(b"{}\n" * 10_000)
        assert len(list(entries(run.path / "metrics.jsonl"))) == 1_001

    @pytest.mark.parametrize("length", [0, 1, 3_000_000])
    def test_half_a_line_is_dropped_before_the_next(self, length: int, run: RunDirectory) -> None:
        run.append("metrics", {"step": 1})
        with (run.path / "metrics.jsonl").open("ab") as stream:
            stream.write(b"x" * length)
        run.append_late("metrics", {"step": 2})
        assert run.records("metrics") == [{"step": 1}, {"step": 2}]

    @pytest.mark.parametrize(
        "change",
        [
            {"seeds": None},
            {"seeds": 5},
            {"seeds": []},
            {"seeds": [0, 0]},
            {"episodes": 0},
            {"return_mean": []},
            {"return_std": ["1"]},
            {"length_mean": None},
        ],
    )
    def test_an_evaluation_that_none_writes_is_damage(self, change: dict[str, Any], run: RunDirectory) -> None:
        run.append("evaluations", EVALUATION)
        run.append("evaluations", EVALUATION | change)
        with pytest.raises(CheckpointError, match=r"evaluations\.jsonl: line 2 is damaged$"):
            run.records("evaluations")
        (warning,) = RunDirectory(run.path).rewind(10)
        assert "1 line could not be read" in warning
        assert run.records("evaluations") == [EVALUATION]

    def test_rewind_makes_no_files(self, run: RunDirectory) -> None:
        run.append("metrics", {"step": 1})
        run.rewind(1)
        assert not (run.path / "evaluations.jsonl").exists()

    def test_notes_change_what_they_name_and_nothing_else(self, run: RunDirectory) -> None:
        before = run.describe()
        run.note(status="failed", reason="x")
        assert run.describe() == {**before, "status": "failed", "reason": "x"}
        assert not [path for path in run.path.iterdir() if ".tmp-" in path.name]


def test_a_resumed_run_says_what_its_records_lack(data_file: Path, tmp_path: Path) -> None:
    config = small_config(data_file, tmp_path, log_interval=5, checkpoint_interval=5)
    before = train(config, callbacks=[StopAt(17)]).run
    file = before.path / "metrics.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text(lines[0] + lines[2])
    after = manager.resume(before.path)
    *_, notice = after.run.describe()["notices"]
    assert notice.startswith(f"warning: {file}: 2 of the 3 records up to step 17 are there")
    assert [record["step"] for record in after.run.records("metrics")] == [5, 15, 20]
    assert notice not in manager.resume(before.path, total_timesteps=25).run.describe()["notices"]


def test_a_run_that_is_moved_while_it_trains(data_file: Path, tmp_path: Path) -> None:
    class Mover(Callback):
        def on_checkpoint(self, loop: Loop, path: Path) -> None:
            (tmp_path / "run").rename(tmp_path / "moved")

    config = small_config(data_file, tmp_path, log_interval=5, checkpoint_interval=5)
    with pytest.raises(CheckpointError, match=r"run was moved or removed since: what was saved is where it is now"):
        train(config, callbacks=[Mover()])
    assert not (tmp_path / "run").exists()
    whole = train(small_config(data_file, tmp_path, name="whole", log_interval=5, checkpoint_interval=5))
    end = manager.resume(tmp_path / "moved")
    assert end.run.records("metrics") == whole.run.records("metrics")


@pytest.mark.parametrize("mask", [0o077, 0o027, 0o022, 0o002])
def test_rights_follow_the_umask(mask: int, data_file: Path, tmp_path: Path) -> None:
    previous = os.umask(mask)
    try:
        run = train(small_config(data_file, tmp_path / "runs")).run.path
    finally:
        os.umask(previous)
    for path in (run.parent, run, *run.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o777 if path.is_dir() else 0o666) & ~mask, path


class TestLoad:
    def test_a_link_to_nowhere_is_not_waited_for(self, run: RunDirectory) -> None:
        (run.path / "checkpoints").mkdir()
        (run.path / "checkpoints" / "step-30").symlink_to("nowhere")
        with pytest.raises(CheckpointError, match=r"step-30.*no other is sound"):
            run.load()

    def test_what_a_training_process_lets_go_of_meanwhile(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = train(small_config(data_file, tmp_path, checkpoint_interval=10)).run
        newer = run.checkpoint_path(20).rename(run.path / "newer")
        places: list[Path] = []

        def slowly(path: Path) -> Checkpoint:
            if not places:  # a newer one is written and this one goes while it is being read
                newer.rename(run.checkpoint_path(20))
                path.rename(run.path / "gone")
            places.append(path)
            return load_checkpoint(path)

        monkeypatch.setattr("rl_training.runtime.run_directory.load_checkpoint", slowly)
        assert run.load().progress["steps"] == 20
        assert [path.name for path in places] == ["step-10", "step-20"]
        with pytest.raises(CheckpointError, match="no checkpoint 10; choose from last"):
            run.load(10)

    def test_before_the_first_checkpoint(self, run: RunDirectory) -> None:
        with pytest.raises(CheckpointError, match="first: has no checkpoint yet"):
            run.load()

    def test_a_checkpoint_that_is_not_there(self, data_file: Path, tmp_path: Path) -> None:
        run = train(small_config(data_file, tmp_path, checkpoint_interval=10)).run
        assert run.load(10).progress["updates"] == 10
        with pytest.raises(CheckpointError, match=r"run: no checkpoint 7; choose from last, .*10, 20"):
            run.load(7)
        with pytest.raises(CheckpointError, match="no checkpoint 'lsat'"):
            run.load("lsat")

    def test_no_best_without_evaluations(self, data_file: Path, tmp_path: Path) -> None:
        run = train(small_config(data_file, tmp_path)).run
        with pytest.raises(CheckpointError) as caught:
            run.load("best")
        assert "last, best" not in str(caught.value)
        assert "that takes evaluations in an environment (env_id)" in str(caught.value)
        run.note(config={**run.describe()["config"], "env_id": "Pendulum-v1"})
        with pytest.raises(CheckpointError, match="'best'; none was scored yet, as its first eval"):
            run.load("best")

    def test_a_best_that_run_json_alone_knows(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        script_scores(monkeypatch, {5: 1.0, 10: 3.0, 15: 2.0, 20: 0.0})
        run = train(small_config(data_file, tmp_path, eval_interval=5, keep_checkpoints=9)).run
        facts = run.describe()
        assert run.load("best").progress["steps"] == 10
        run.note(best={**facts["best"], "step": 15})
        told = r"run\.json: best\.step: is 15, and 10 as step-20, the newest checkpoint, has it; put it right"
        with pytest.raises(CheckpointError, match=told):
            run.load("best")
        assert run.load().progress["steps"] == 20
        run.note(step=15)  # as where a process is killed before it tells of the last
        assert run.load("best").progress["steps"] == 10

    def test_a_best_that_run_json_does_not_know_yet(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As where a process is killed between the two: lists and cards go by the checkpoint, too."""
        script_scores(monkeypatch, {5: 1.0, 10: 0.5, 15: 0.0, 20: 3.0})
        run = train(small_config(data_file, tmp_path, eval_interval=5, keep_checkpoints=9)).run
        run.note(step=15, best={"step": 5, "return_mean": 1.0}, last={"step": 15, "return_mean": 0.0})
        listed = summarise(run.path)
        assert (listed.steps, listed.last, listed.best) == (20, 3.0, 3.0)
        for step in (5, 20):
            told = card.scores(manager.load_policy(run.path, which=step), run, 0)
            assert told is not None
            assert told["how"]["is_best_of_run"] == (step == 20)
        (run.checkpoint_path(20) / "state.json").write_text("{}")  # damaged: as run.json has it
        assert (summarise(run.path).best, run.best_step()) == (1.0, 5)

    def test_a_number_as_text(self, data_file: Path, tmp_path: Path) -> None:
        run = train(small_config(data_file, tmp_path)).run
        assert run.load("20").progress["updates"] == 20


class TestWhoseACheckpointIs:
    @pytest.fixture
    def run(self, data_file: Path, tmp_path: Path) -> RunDirectory:
        return train(small_config(data_file, tmp_path, name="own", checkpoint_interval=10)).run

    def refusal(self, run: RunDirectory) -> str:
        with pytest.raises(CheckpointError) as caught:
            run.load()
        with pytest.raises(CheckpointError):
            manager.resume(run.path, total_timesteps=30)
        end = "; the newest sound one is step-10 (--which 10)"
        said = str(caught.value)
        assert said.endswith(end), said
        return said.removeprefix(f"{run.checkpoint_path(20)}: ").removesuffix(end)

    @pytest.mark.parametrize(
        ("changes", "complaint"),
        [
            ({"algo": "awr"}, "is of another run (algo: 'awr', not 'bc')"),
            ({"seed": [0, 7]}, "is of another run (seeds: [0, 7], not [0])"),
        ],
    )
    def test_another_runs(
        self, changes: dict[str, Any], complaint: str, run: RunDirectory, data_file: Path, tmp_path: Path
    ) -> None:
        other = train(small_config(data_file, tmp_path, name="other", **changes)).run
        shutil.rmtree(run.checkpoint_path(20))
        shutil.copytree(other.checkpoint_path(20), run.checkpoint_path(20))
        assert self.refusal(run) == complaint

    def test_of_other_data(self, run: RunDirectory, tmp_path: Path) -> None:
        generate_pendulum_dataset(300, 5).save(tmp_path / "other.npz")
        other = train(small_config(tmp_path / "other.npz", tmp_path, name="other")).run
        shutil.rmtree(run.checkpoint_path(20))
        shutil.copytree(other.checkpoint_path(20), run.checkpoint_path(20))
        assert self.refusal(run).startswith("is of another run (data: '")

    def test_of_another_step(self, run: RunDirectory) -> None:
        shutil.rmtree(run.checkpoint_path(20))
        shutil.copytree(run.checkpoint_path(10), run.checkpoint_path(20))
        assert self.refusal(run) == "damaged (it was saved at step 10)"

    def test_a_run_is_its_own_in_another_place_and_when_it_goes_on(self, run: RunDirectory, tmp_path: Path) -> None:
        copy = Path(shutil.copytree(run.path, tmp_path / "elsewhere" / "renamed"))
        assert manager.resume(copy, total_timesteps=30).progress.steps == 30
        assert RunDirectory(copy).load(30).progress["steps"] == 30

    def test_a_single_one_has_any_name(self, run: RunDirectory, tmp_path: Path) -> None:
        place = shutil.copytree(run.checkpoint_path(20), tmp_path / "step-7")
        assert load_any(Path(place)).progress["steps"] == 20

    def test_what_earlier_versions_did_not_write_is_not_compared(self, run: RunDirectory) -> None:
        facts = {name: value for name, value in run.describe().items() if name not in ("algo", "seeds")}
        (run.path / "run.json").write_text(json.dumps(facts))
        checkpoint = replace(run.load(20), data=None)
        shutil.rmtree(run.checkpoint_path(20))
        save_checkpoint(run.checkpoint_path(20), checkpoint)
        assert manager.resume(run.path, total_timesteps=30).progress.steps == 30


class TestWhatLiesAbout:
    @pytest.fixture
    def run(self, data_file: Path, tmp_path: Path) -> RunDirectory:
        """Stopped at step 12, with one checkpoint to be let go of on the way to its end."""
        config = small_config(data_file, tmp_path, name="own", checkpoint_interval=5, keep_checkpoints=1)
        return manager.start(config, callbacks=[StopAt(12)]).run

    def test_own_leftovers_go_whatever_they_are_and_nothing_else(self, run: RunDirectory, tmp_path: Path) -> None:
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside" / "mine").write_text("")
        own = [run.path / ".run.json.tmp-1", run.path / ".metrics.jsonl.tmp-2-3", run.path / ".config.yaml.tmp-4"]
        own += [run.path / "checkpoints" / name for name in ("step-12.tmp-removed", "step-9.tmp-1", "step-8.tmp-1")]
        for place in own[:4]:
            (place / "a").mkdir(parents=True)
        own[4].symlink_to(tmp_path / "outside")
        own[5].write_text("")
        others = [run.path / ".foo.tmp-1", run.path / "checkpoints" / "notes.tmp-1"]
        for place in others:
            (place / "a").mkdir(parents=True)
        assert manager.resume(run.path).status == "finished"
        assert [place.name for place in own if os.path.lexists(place)] == []
        assert all((place / "a").is_dir() for place in others)
        assert (tmp_path / "outside" / "mine").is_file()

    @pytest.mark.parametrize(
        ("put", "why"),
        [
            (lambda place: place.write_text(""), "Not a directory"),
            (lambda place: place.symlink_to(place.name), "Too many levels of symbolic links"),
            (lambda place: place.symlink_to("nowhere"), "No such file or directory"),
        ],
    )
    def test_a_run_does_not_begin_anew_where_its_checkpoints_are_out_of_reach(
        self, put: Callable[[Path], Any], why: str, run: RunDirectory
    ) -> None:
        shutil.rmtree(run.path / "checkpoints")
        put(run.path / "checkpoints")
        before = files_under(run.path)
        with pytest.raises(CheckpointError) as caught:
            manager.resume(run.path)
        assert str(caught.value) == f"{run.path / 'checkpoints'}: cannot be read ({why}); it has to be a folder"
        with pytest.raises(CheckpointError, match="it has to be a folder"):
            manager.start_or_resume(run.config())
        assert {**files_under(run.path), ".lock": b""} == {**before, ".lock": b""}


def test_a_run_that_is_running_is_not_resumed_by_another(data_file: Path, tmp_path: Path) -> None:
    class ResumesMeanwhile(Callback):
        outcomes: ClassVar[list[str]] = []

        def on_checkpoint(self, loop: Loop, path: Path) -> None:
            if loop.progress.steps < 20:
                try:
                    self.outcomes.append(manager.resume(loop.run_directory.path).status)
                except (CheckpointError, ConfigError):
                    self.outcomes.append("refused")

    train(small_config(data_file, tmp_path, checkpoint_interval=15), callbacks=[ResumesMeanwhile()])
    assert ResumesMeanwhile.outcomes == ["refused"]


def test_records_that_contradict_each_other_are_both_kept(tmp_path: Path) -> None:
    """A checkpoint of an earlier version says nothing of its records, so nobody knows which of the two is right."""
    file = tmp_path / "metrics.jsonl"
    lines = [b'{"step": 10, "loss": 1}\n', b'{"step": 10, "loss": 2}\n']
    file.write_bytes(b"".join(lines))
    whole, warning = Records(file).up_to(10, None)
    assert whole == b"".join(lines)
    assert warning is not None
    assert warning.endswith(
        "1 record stood there more than once (the first of step 10), with other values; all are kept"
    )
