"""`rl-training evaluate`: intervals, the normalised scale, several runs, films."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

from rl_training.cli.evaluating import _disagreement
from rl_training.experiment import statistics
from rl_training.runtime.evaluation import Evaluation
from rl_training.runtime.trainer import train
from rl_training.wording import readable
from small_runs import small_config
from tiny_environments import Cliff


class Drawn(Cliff):
    """Draws a picture of one colour."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def render(self) -> Any:
        return np.full((16, 24, 3), 10 * self.time, dtype=np.uint8)


class Blind(Drawn):
    """Says that it draws, and cannot."""

    def render(self) -> Any:
        raise OSError("no display")


@pytest.fixture(scope="module", autouse=True)
def environments() -> Iterator[None]:
    # Hopper's name gives the normalised scale; the environment behind it is a tiny one.
    entries = {"Hopper-tiny-v0": Drawn, "Other-tiny-v0": Drawn, "Blind-v0": Blind, "Plain-v0": Cliff}
    for name, entry in entries.items():
        gymnasium.register(name, entry, max_episode_steps=6)
    yield
    for name in entries:
        del gymnasium.registry[name]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three seeds, three others, and one alone, hardly trained."""
    folder = tmp_path_factory.mktemp("runs")
    made = {}
    for name, env_id, seeds in (
        ("one", "Hopper-tiny-v0", [0, 1, 2]),
        ("two", "Hopper-tiny-v0", [3, 4, 5]),
        ("alone", "Other-tiny-v0", [7]),
    ):
        config = small_config(
            None,
            folder,
            name=name,
            env_id=env_id,
            dataset={"source": "random", "size": 40},
            seed=seeds,
            total_timesteps=2,
            evaluation={"episodes": 1},
        )
        made[name] = train(config).run.path
    return made


class TestOneRun:
    def test_interval_and_score(self, command: Any, runs: dict[str, Path]) -> None:
        code, out, _ = command("evaluate", runs["one"], "--episodes", 4)
        lines = out.splitlines()
        assert code == 0
        assert [line.split()[1] for line in lines[1:4]] == ["0", "1", "2"]
        assert "interquartile mean" in lines[5]
        assert "95% interval" in lines[5]
        assert lines[5].endswith("(bootstrap over 3 seeds)")
        assert "(D4RL: 0 random, 100 expert)" in lines[6]

    def test_json_is_the_same_numbers(self, command: Any, runs: dict[str, Path]) -> None:
        told = json.loads(command("evaluate", runs["one"], "--episodes", 4, "--json").out)
        means = np.mean(told["returns"], axis=1)
        expected = statistics.bootstrap([means])
        found = told["interquartile_mean"]
        assert (found["value"], found["low"], found["high"]) == (expected.value, expected.low, expected.high)
        assert (found["over"], found["level"]) == ("seeds", 0.95)
        scale = 100.0 / (3234.3 + 20.272305)
        assert told["normalised"]["value"] == pytest.approx((means.mean() + 20.272305) * scale)
        assert told["normalised"]["scale"] == "D4RL"
        assert told["return_mean"] == pytest.approx(means.tolist())

    def test_the_spread_of_seeds_is_that_of_the_page(self, command: Any, runs: dict[str, Path]) -> None:
        """Of a few seeds among all that there could be."""
        words = ("evaluate", runs["one"], "--episodes", "2")
        means = np.mean(json.loads(command(*words, "--json").out)["returns"], axis=1)
        (line,) = (line for line in command(*words).out.splitlines() if "all seeds" in line)
        assert line.split()[4:] == ["±", readable(means.std(ddof=1)), "(over", "seeds)"]

    def test_one_episode_has_no_spread(self, command: Any, runs: dict[str, Path]) -> None:
        lines = command("evaluate", runs["one"], "--episodes", "1").out.splitlines()
        assert [len(line.split()) for line in lines[1:4]] == [4, 4, 4]

    def test_one_seed_is_judged_by_its_episodes(self, command: Any, runs: dict[str, Path]) -> None:
        out = command("evaluate", runs["alone"], "--episodes", 5).out
        assert "bootstrap over 5 episodes; one seed says nothing of others" in out
        assert "normalised" not in out
        told = json.loads(command("evaluate", runs["alone"], "--episodes", 1, "--json").out)
        assert told["interquartile_mean"]["low"] is None
        assert told["normalised"] is None

    def test_chosen_seeds_score_as_among_all(self, command: Any, runs: dict[str, Path]) -> None:
        every = json.loads(command("evaluate", runs["one"], "--episodes", 3, "--json").out)
        some = json.loads(command("evaluate", runs["one"], "--episodes", 3, "--seeds", "2,0", "--json").out)
        assert some["seeds"] == [0, 2]
        assert some["returns"] == [every["returns"][0], every["returns"][2]]

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["--seeds", "0,x"], "must be numbers separated by commas"),
            (["--seeds", "9"], "9 is not in this run; it has 0, 1, 2"),
            (["--which", "worst"], "no checkpoint 'worst'"),
        ],
    )
    def test_mistakes(self, words: list[str], said: str, mistake: Any, runs: dict[str, Path]) -> None:
        assert said in mistake("evaluate", runs["one"], *words)


class TestTheSeedThatIsTaken:
    """By the evaluation during training, which is named; what is shown here may say otherwise."""

    def test_figures_that_agree(self) -> None:
        assert _disagreement(self.evaluation([1.0, 5.0, 3.0]), 1) == []
        assert _disagreement(self.evaluation([5.0, 5.0, 3.0]), 1) == []
        assert _disagreement(self.evaluation([1.0, 5.0, 3.0]), 7) == []  # it was not played

    def test_figures_that_do_not(self) -> None:
        told = "in the episodes above seed 2 returned more than seed 1; --seed 2 takes that one instead"
        assert _disagreement(self.evaluation([1.0, 2.0, 3.0]), 1) == [told]

    def evaluation(self, means: list[float]) -> Evaluation:
        returns = np.array([[mean - 1.0, mean + 1.0] for mean in means])
        return Evaluation(20, (0, 1, 2), returns, np.ones(returns.shape, np.int64))

    def test_both_are_told(self, command: Any, runs: dict[str, Path]) -> None:
        out = command("evaluate", runs["one"], "--episodes", 3, "--seed", 100).out
        assert re.search(r"seed 1: it scored best of 3 seeds in the evaluation during training at step [0-9]+ \(", out)


class TestSeveralRuns:
    def test_compared(self, command: Any, runs: dict[str, Path]) -> None:
        out = command("evaluate", runs["one"], runs["two"], "--episodes", 3).out
        assert "probability of improvement (a random seed of the one" in out
        told = json.loads(command("evaluate", runs["one"], runs["two"], "--episodes", 3, "--json").out)
        (pair,) = told["improvement"]
        by_run = {run["run"]: np.mean(run["returns"], axis=1) for run in told["runs"]}
        expected = statistics.improvement([by_run[pair["run"]]], [by_run[pair["over"]]])
        assert pair["value"] == expected.value >= 0.5
        assert (pair["low"], pair["high"]) == (expected.low, expected.high)

    def test_not_across_environments(self, command: Any, runs: dict[str, Path]) -> None:
        out = command("evaluate", runs["one"], runs["alone"], "--episodes", 2).out
        assert "not compared" in out
        assert "probability" not in out


class TestFilm:
    def test_gif(self, command: Any, runs: dict[str, Path], tmp_path: Path) -> None:
        image = pytest.importorskip("PIL.Image")
        code, out, err = command("evaluate", runs["one"], "--episodes", 1, "--video", "a.gif")
        assert (
            "export and predict take seed 1: it scored best of 3 seeds in the evaluation during training at step" in out
        )
        assert (code, err) == (0, "film of seed 1: a.gif (7 pictures)\n")
        with image.open(tmp_path / "a.gif") as film:
            assert film.size == (24, 16)
            assert film.n_frames == 7
            assert film.info["duration"] == 100

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["--video", "a.avi"], "must end in .gif or .mp4"),
            (["--video", "/dev/null/a.gif"], "--video /dev/null/a.gif: /dev/null is no folder"),
            (["--video", "a.gif", "--env-id", "Blind-v0"], "'Blind-v0' cannot draw here: no display"),
            (["--video", "a.gif", "--env-id", "Plain-v0"], "'Plain-v0'"),
        ],
    )
    def test_mistakes(self, words: list[str], said: str, mistake: Any, runs: dict[str, Path]) -> None:
        pytest.importorskip("PIL")
        assert said in mistake("evaluate", runs["one"], "--episodes", 1, *words)

    def test_a_missing_package(self, mistake: Any, runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
        said = mistake("evaluate", runs["one"], "--video", "a.mp4")
        assert said.endswith("needs imageio_ffmpeg: pip install 'rl-training[video]'")

    def test_mp4(self, command: Any, runs: dict[str, Path], tmp_path: Path) -> None:
        """Written by ffmpeg and read back by it: as many pictures as the episode has, of their size."""
        ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="needs imageio-ffmpeg: pip install 'rl-training[video]'")
        try:
            ffmpeg.get_ffmpeg_exe()
        except RuntimeError:
            pytest.skip("needs the program ffmpeg (Debian: apt install ffmpeg)")
        code, _, err = command("evaluate", runs["one"], "--episodes", 1, "--video", "a.mp4")
        assert (code, err) == (0, "film of seed 1: a.mp4 (7 pictures)\n")
        facts, *pictures = ffmpeg.read_frames(str(tmp_path / "a.mp4"))
        assert facts["size"] == (24, 16)
        assert facts["fps"] == 10.0
        assert len(pictures) == 7

    def test_a_package_without_its_program(
        self, mistake: Any, runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def none() -> str:
            raise RuntimeError("No ffmpeg exe could be found.")

        monkeypatch.setitem(sys.modules, "imageio_ffmpeg", SimpleNamespace(get_ffmpeg_exe=none))
        said = mistake("evaluate", runs["one"], "--video", "a.mp4")
        assert said.startswith(
            "error: --video a.mp4: needs the program ffmpeg: install it (Debian: apt install ffmpeg;"
        )

    def test_ffmpeg_fails(self, command: Any, runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
        def failing(*_: Any, **__: Any) -> Any:
            raise OSError("ffmpeg died:\n\nline after line\n")
            yield

        fake = SimpleNamespace(get_ffmpeg_exe=lambda: "ffmpeg", write_frames=failing)
        monkeypatch.setitem(sys.modules, "imageio_ffmpeg", fake)
        code, _, err = command("evaluate", runs["one"], "--episodes", 1, "--video", "a.mp4")
        assert code == 2
        assert err == "error: --video a.mp4: cannot be written (ffmpeg died: line after line)\n"

    def test_one_run_only(self, mistake: Any, runs: dict[str, Path]) -> None:
        assert "films one run" in mistake("evaluate", runs["one"], runs["two"], "--video", "a.gif")
