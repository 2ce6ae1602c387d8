"""Going on: with the newest run of a configuration, from a chosen checkpoint, past an edited config.yaml."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

import tiny_environments  # noqa: F401  (registers the environments)
from rl_training.cli.main import app
from rl_training.errors import CheckpointError, ConfigError, EnvironmentFailedError, RLTrainingError
from rl_training.experiment import manager
from rl_training.experiment.curves import draw_learning_curve, lines_of
from rl_training.runtime import records as records_module
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.evaluation import Evaluation
from rl_training.runtime.loop import Loop
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.trainer import train
from small_runs import StopAt, digest, files_under, script_scores, small_config, small_values
from tiny_environments import COUNTED, Counted


def rl_training(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, [*arguments], catch_exceptions=True)
    message = f"{type(result.exception).__name__}: {result.exception}" if result.exception else ""
    return result.exit_code, " ".join(f"{result.output} {message}".split())


class TestAuto:
    @pytest.fixture
    def config(self, data_file: Path, tmp_path: Path) -> Path:
        values = small_values(data_file, tmp_path / "runs", name=None, checkpoint_interval=5)
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(values))
        return tmp_path / "config.yaml"

    def test_starts_continues_and_then_has_nothing_to_do(self, config: Path, tmp_path: Path) -> None:
        command = ["train", "-c", str(config), "--resume", "auto"]
        assert "train: bc" in rl_training(*command, "--dry-run")[1]
        code, said = rl_training(*command)
        assert (code, "finished after 20 updates" in said) == (0, True)
        (run,) = (tmp_path / "runs").iterdir()
        code, said = rl_training(*command)
        assert code == 0
        assert f"nothing to do: {run} is finished at step 20" in said
        assert len(list((tmp_path / "runs").iterdir())) == 1

    def test_continues_the_newest_of_the_same_configuration(self, config: Path, tmp_path: Path) -> None:
        values = yaml.safe_load(config.read_text())
        runs = []
        for name, changes in (("old", {}), ("new", {}), ("another", {"seed": 1}), ("longer", {"total_timesteps": 30})):
            given = {**values, "name": name, **changes}
            runs.append(train(small_config(**_arguments(given)), callbacks=[StopAt(7)]).run)
        for age, run in enumerate(runs):
            run.note(created=f"2026-01-0{age + 1}T00:00:00+0000")
        assert f"# continue: {runs[1].path}" in rl_training(*_auto(config), "--dry-run")[1]
        code, said = rl_training(*_auto(config))
        assert code == 0, said
        assert "continuing bc" in said
        assert [run.describe()["status"] for run in runs] == ["interrupted", "finished", "interrupted", "interrupted"]

    def test_a_named_run(self, config: Path, tmp_path: Path) -> None:
        command = [*_auto(config), "--name", "mine"]
        assert rl_training(*command)[0] == 0
        assert "nothing to do" in rl_training(*command)[1]
        code, said = rl_training(*command, "--set", "seed=3", "--set", "algo_kwargs.batch_size=4")
        assert code != 0
        assert "mine has another configuration (seed, algo_kwargs.batch_size)" in said

    def test_goes_on_from_the_newest_sound_checkpoint_where_the_last_is_damaged(self, config: Path) -> None:
        values = yaml.safe_load(config.read_text())
        run = train(small_config(**_arguments({**values, "name": "run"})), callbacks=[StopAt(12)]).run
        whole = train(small_config(**_arguments({**values, "name": "run", "runs_dir": values["runs_dir"] + "-2"}))).run
        (run.checkpoint_path(12) / "manifest.json").unlink()
        code, said = rl_training(*_auto(config), "--quiet")
        assert code == 0, said
        assert "warning: " in said
        assert "step-12/manifest.json: cannot be read" in said
        assert digest(run.load().tensors) == digest(whole.load().tensors)
        assert run.records("metrics") == whole.records("metrics")

    @pytest.mark.parametrize(
        ("file", "damage", "why"),
        [
            ("run.json", lambda whole: whole[:100], r"run\.json: cannot be read"),
            (
                "run.json",
                lambda whole: whole.replace(b'"step": 7', b'"step": "x"'),
                r"run\.json: step: 'x' is not a value",
            ),
            ("run.json", None, r"run\.json: cannot be read \(No such file"),
            ("config.yaml", lambda whole: b"\x01" + whole, r"config\.yaml: cannot be read"),
            ("config.yaml", lambda whole: b"of_another_version: 1\n" + whole, r"config\.yaml: of_another_version"),
        ],
    )
    def test_a_run_that_cannot_be_read_is_named(
        self, file: str, damage: Callable[[bytes], bytes] | None, why: str, config: Path, tmp_path: Path
    ) -> None:
        """It may be the very one to go on with; but other runs must not be kept from training by it."""
        values = yaml.safe_load(config.read_text())
        runs = tmp_path / "runs"
        broken = train(small_config(**_arguments({**values, "name": "broken"})), callbacks=[StopAt(7)]).run.path
        if damage is None:
            (broken / file).unlink()
        else:
            (broken / file).write_bytes(damage((broken / file).read_bytes()))
        if file == "config.yaml":  # of a version that kept it nowhere else
            facts = json.loads((broken / "run.json").read_text())
            (broken / "run.json").write_text(json.dumps({k: v for k, v in facts.items() if k != "config"}))
        before = files_under(broken)
        with pytest.warns(match=f"{why}.* passed over .* put it right if it is that one, else move it out of {runs}"):
            assert manager.newest_run(small_config(**_arguments({**values}))) is None
        code, said = rl_training(*_auto(config), "--quiet")
        assert code == 0, said
        assert said.startswith(f"warning: {broken / file}: ")
        with pytest.raises(manager.FinishedError):  # the new one is gone on with
            manager.start_or_resume(small_config(**_arguments({**values})), warn=lambda text: None)
        with pytest.raises(RLTrainingError):
            manager.start_or_resume(small_config(**_arguments({**values, "name": "broken"})))
        assert files_under(broken) == before
        assert len(list(runs.iterdir())) == 2

    def test_a_folder_that_may_not_be_looked_into_hides_no_run(
        self, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert rl_training(*_auto(config))[0] == 0
        plain = Path.exists

        def refuse(self: Path, **options: Any) -> bool:
            if "locked" in self.parts:
                raise PermissionError(13, "Permission denied")
            return plain(self, **options)

        (tmp_path / "runs" / "locked").mkdir()
        monkeypatch.setattr(Path, "exists", refuse)
        assert "nothing to do" in rl_training(*_auto(config))[1]

    def test_the_newest_by_the_hour_wherever_its_clock_was(self, config: Path) -> None:
        values = yaml.safe_load(config.read_text())
        runs = [train(small_config(**_arguments({**values, "name": name})), callbacks=[StopAt(7)]).run for name in "ab"]
        runs[0].note(created="2026-01-02T03:00:00+0900")  # the evening before
        runs[1].note(created="2026-01-01T19:00:00+0000")
        newest = manager.newest_run(small_config(**_arguments(values)))
        assert newest is not None
        assert newest.path == runs[1].path

    def test_a_link_that_leads_nowhere_hides_no_run(self, config: Path, tmp_path: Path) -> None:
        assert rl_training(*_auto(config))[0] == 0
        (tmp_path / "runs" / "long").symlink_to("a" * 300)  # longer than a name can be
        (tmp_path / "runs" / "loop").symlink_to("loop")
        assert "nothing to do" in rl_training(*_auto(config))[1]

    def test_a_folder_of_runs_that_cannot_be_listed_starts_none(
        self, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert rl_training(*_auto(config))[0] == 0
        before = files_under(tmp_path / "runs")
        plain = Path.iterdir

        def refuse(self: Path) -> Any:
            if self.name == "runs":
                raise PermissionError(13, "Permission denied")
            return plain(self)

        monkeypatch.setattr(Path, "iterdir", refuse)
        with pytest.raises(CheckpointError, match=r"runs: what is in it cannot be listed \(Permission denied\)"):
            manager.start_or_resume(small_config(**_arguments(yaml.safe_load(config.read_text()))))
        monkeypatch.setattr(Path, "iterdir", plain)
        assert files_under(tmp_path / "runs") == before

    @pytest.mark.parametrize("is_there", [True, False])
    def test_a_run_does_not_begin_anew_where_its_checkpoints_are_gone(
        self, is_there: bool, config: Path, tmp_path: Path
    ) -> None:
        values = yaml.safe_load(config.read_text())
        run = train(small_config(**_arguments({**values, "name": "run"})), callbacks=[StopAt(7)]).run
        shutil.rmtree(run.path / "checkpoints")
        if is_there:
            (run.path / "checkpoints").mkdir()
        before = files_under(run.path)
        told = rf"{run.path}: run\.json tells of a checkpoint at step 7, but there is none in checkpoints/; put it back"
        with pytest.raises(CheckpointError, match=told):
            manager.start_or_resume(small_config(**_arguments({**values})))
        with pytest.raises(CheckpointError, match=told):
            manager.resume(run.path)
        assert files_under(run.path) == before

    def test_a_finished_run_that_does_not_say_where(self, config: Path, tmp_path: Path) -> None:
        assert rl_training(*_auto(config))[0] == 0
        (run,) = (tmp_path / "runs").iterdir()
        RunDirectory(run).note(step=None)
        with pytest.raises(CheckpointError, match=r"run\.json: step: must be a number in a finished run, got "):
            manager.start_or_resume(RunDirectory(run).config().model_copy(update={"name": None}))

    def test_only_auto(self, config: Path) -> None:
        code, said = rl_training("train", "-c", str(config), "--resume", "yes")
        assert code != 0
        assert "--resume: must be auto, got 'yes'" in said


def _auto(config: Path) -> list[str]:
    return ["train", "-c", str(config), "--resume", "auto"]


def _arguments(values: dict[str, Any]) -> dict[str, Any]:
    return {"data": values.pop("dataset"), "runs": values.pop("runs_dir"), **values}


class TestWhich:
    @pytest.mark.parametrize(("which", "step"), [("best", 10), ("step-15", 15), ("5", 5), ("latest", 20)])
    def test_goes_on_from_there_and_sets_the_rest_aside(
        self, which: str, step: int, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        script_scores(monkeypatch, {5: 1.0, 10: 9.0, 15: 2.0, 20: 3.0, 25: 4.0})
        changes = {"eval_interval": 5, "keep_checkpoints": 9, "log_interval": 5}
        run = train(small_config(data_file, tmp_path, **changes)).run
        code, said = rl_training("resume", str(run.path), "--which", which, "--total-timesteps", "25")
        assert code == 0, said
        names = {path.name for path in (run.path / "checkpoints").iterdir()}
        assert {n for n in names if "aside" in n} == {f"step-{s}.aside" for s in (10, 15, 20) if s > step}
        whole = train(small_config(data_file, tmp_path, name="whole", total_timesteps=25, **changes)).run
        assert run.steps() == whole.steps()
        assert digest(run.load().tensors) == digest(whole.load().tensors)
        for kind in ("metrics", "evaluations"):
            assert run.records(kind) == whole.records(kind)

    def test_one_that_is_not_there(self, data_file: Path, tmp_path: Path) -> None:
        run = train(small_config(data_file, tmp_path)).run
        with pytest.raises(CheckpointError, match=r"no checkpoint 'step-7'; choose from last, 20"):
            manager.resume(run.path, which="step-7", total_timesteps=30)

    def test_a_damaged_one_is_written_anew(self, data_file: Path, tmp_path: Path) -> None:
        run = train(small_config(data_file, tmp_path, checkpoint_interval=10)).run
        good = digest(run.load().tensors)
        (run.checkpoint_path(20) / "weights.safetensors").write_bytes(b"")
        manager.resume(run.path, which=10)
        assert digest(run.load(20).tensors) == good


def test_an_edited_configuration_is_told_and_not_used(data_file: Path, tmp_path: Path) -> None:
    run = train(small_config(data_file, tmp_path), callbacks=[StopAt(7)]).run
    original = (run.path / "config.yaml").read_text()
    edited = yaml.safe_load(original)
    edited["seed"], edited["algo_kwargs"]["batch_size"] = 5, 4
    (run.path / "config.yaml").write_text(yaml.safe_dump(edited))
    code, said = rl_training("resume", str(run.path))
    assert code == 0
    assert "note: config.yaml was edited (seed, algo_kwargs.batch_size); a run goes on as it was started" in said
    assert (run.path / "config.yaml").read_text() == original


def test_a_run_without_a_checkpoint_starts_again(data_file: Path, tmp_path: Path) -> None:
    class Dies(Callback):
        def on_progress(self, loop: Loop) -> None:
            raise MemoryError

    config = small_config(data_file, tmp_path, log_interval=1)
    whole = train(config.model_copy(update={"name": "whole"})).run
    with pytest.raises(MemoryError):
        train(config, callbacks=[Dies()])
    run = RunDirectory.open(tmp_path / "run")
    assert run.steps() == []
    run.append("metrics", {"step": 1, "left": "behind"})
    resumed = manager.resume(run.path)
    assert digest(resumed.checkpoint.tensors) == digest(whole.load().tensors)
    assert run.records("metrics") == whole.records("metrics")


def test_environments_that_do_not_open_leave_a_run_marked_as_failed(tmp_path: Path) -> None:
    config = small_config(None, tmp_path, "td3", env_id=COUNTED, algo_kwargs={"n_envs": 3, "learning_starts": 1})
    Counted.start_counting(resets_left=2)
    with pytest.raises(EnvironmentFailedError, match="no more resets"):
        train(config)
    facts = manager.describe(tmp_path / "run")
    assert facts["status"] == "failed"
    assert "RuntimeError: no more resets" in facts["reason"]


class TestLogs:
    def test_a_record_is_one_write_of_one_line(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """However long: a reader between two writes sees whole records only."""
        run = RunDirectory.create(small_config(data_file, tmp_path), None)
        sizes, plain = [], open

        def watch(*arguments: Any, **options: Any) -> Any:
            file = plain(*arguments, **options)
            assert options.get("buffering") == 0
            write = file.write

            class Watched:
                def write(self, data: bytes) -> int:
                    sizes.append(len(data))
                    count: int = write(data)
                    with plain(run.path / "metrics.jsonl", "rb") as reader:
                        assert reader.read().endswith(b"\n")
                    return count

                def __enter__(self) -> Watched:
                    return self

                def __exit__(self, *details: Any) -> None:
                    file.close()

            return Watched()

        records = [{"step": step, "a": list(range(20_000))} for step in (1, 2)]
        with monkeypatch.context() as patched:
            patched.setattr(records_module, "open", watch, raising=False)
            for record in records:
                run.append("metrics", record)
        assert sizes == [len(json.dumps(record)) + 1 for record in records]
        assert run.records("metrics") == records

    def test_the_curve_of_a_run_that_never_saved(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        script_scores(monkeypatch, {5: 1.0})

        class Dies(Callback):
            def on_evaluation(self, loop: Loop, evaluation: Evaluation) -> None:
                raise MemoryError

        with pytest.raises(MemoryError):
            train(small_config(data_file, tmp_path, eval_interval=5), callbacks=[Dies()])
        run = RunDirectory.open(tmp_path / "run")
        with (run.path / "evaluations.jsonl").open("ab") as file:
            file.write(b'{"step": 10, "ret')  # as far as the disk came
        picture = draw_learning_curve(run)
        assert picture is not None
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_curve_of_many_seeds_is_one_line() -> None:
    """A line for each of some thousand took minutes, and showed nothing."""
    of = {"seeds": list(range(101)), "return_mean": list(range(101)), "return_std": [1.0] * 101, "episodes": 2}
    ((label, steps, middle, low, high),) = lines_of([{"step": 5, **of}, {"step": 10, **of}])
    assert label == "median of 101 seeds (band: 10% to 90% of them)"
    assert (steps, middle.tolist(), low.tolist(), high.tolist()) == ([5, 10], [50, 50], [10, 10], [90, 90])


def test_a_folder_that_was_never_finished_is_no_run(data_file: Path, tmp_path: Path) -> None:
    """A process killed while it makes its folder takes no name."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(RunDirectory, "_write_json", lambda *details: (_ for _ in ()).throw(MemoryError))
        with pytest.raises(MemoryError):
            train(small_config(data_file, tmp_path))
    assert list(tmp_path.iterdir()) == []
    train(small_config(data_file, tmp_path))
    with pytest.raises(ConfigError, match="exists already"):
        train(small_config(data_file, tmp_path))


@pytest.mark.parametrize("is_gone", [False, True])
def test_the_working_folder_may_be_changed_on_the_way(
    is_gone: bool, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)

    class Wanders(Callback):
        def on_start(self, loop: Loop) -> None:
            assert loop.run_directory.path == Path("runs/run")  # as it was given, while that leads there
            os.chdir(tmp_path / "elsewhere")
            if is_gone:
                (tmp_path / "elsewhere").rmdir()

    result = train(small_config(data_file, Path("runs"), checkpoint_interval=5), callbacks=[Wanders()])
    assert (result.status, result.run.path) == ("finished", tmp_path / "runs" / "run")
    assert result.run.load().progress["steps"] == 20
    assert len(result.run.records("metrics")) == len(result.run.records("timing")) > 0
    os.chdir(tmp_path)
    assert result.run.path == Path("runs/run")
    assert manager.resume("runs/run", total_timesteps=25).progress.steps == 25
