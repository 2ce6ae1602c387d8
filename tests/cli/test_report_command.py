"""`rl-training report`: what is on the page, for runs of every kind, also hostile and broken ones."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from report_runs import ENV, make_runs, registered
from rl_training import yaml_dialect
from rl_training.data.doctor.wording import alike
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.experiment import statistics
from rl_training.experiment.report import contents, tables
from rl_training.experiment.report.contents import read_runs
from rl_training.runtime import machine_load, run_lock
from rl_training.runtime.memory import MemoryNeed
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.trainer import train
from rl_training.wording import A_REPORT_IS_HTML
from small_runs import StopAt, digest, small_config

HOSTILE = "\"><script>alert('x')</script><img src=x onerror=alert(1)>"
VOID = ("meta", "input", "br", "wbr", "img", "link")


class Reader(HTMLParser):
    """Checks that elements close in order, and collects them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.goes_on = False  # in the middle of a sentence, at an option that is kept in one piece
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.goes_on = ("class", "piece") in attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.goes_on = tag == "span" and self.goes_on

    def handle_data(self, data: str) -> None:
        if self.words and (self.goes_on or (self.elements and self.elements[-1][0] == "wbr")):
            self.words[-1] += data  # in the middle of a word
        elif not self.open or self.open[-1] not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module", autouse=True)
def environment() -> Iterator[None]:
    with registered():
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_runs(tmp_path_factory.mktemp("report"))


@pytest.fixture
def write(command: Any, folder: Path, tmp_path: Path) -> Any:
    """The page on these runs."""

    def run(*names: str | Path, options: tuple[str, ...] = ()) -> Reader:
        code, _, err = command("report", *(folder / name for name in names), "-o", "page.html", "--force", *options)
        assert code == 0, err
        return Reader((tmp_path / "page.html").read_text("utf-8"))

    return run


def copied(folder: Path, name: str, to: Path) -> Path:
    shutil.copytree(folder / name, to)
    return to


class TestTwoRuns:
    def test_the_terminal_names_the_run(
        self, command: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            contents, "metric_doubts", lambda run: (f"q of {run.summary.algo}", f"q in {run.path.name}")
        )
        torn = copied(folder, "one", tmp_path / "torn")
        with (torn / "metrics.jsonl").open("a") as file:
            file.write("torn\n")
        said = command("report", folder / "one", torn, "-o", "page.html", "--no-data").err.splitlines()
        assert said[0].startswith("note: torn/metrics.jsonl: 1 line damaged")
        assert said[1:] == ["warning: one and torn: q of iql", "warning: one: q in one", "warning: torn: q in torn"]
        alone = command("report", folder / "one", "-o", "alone.html", "--no-data").err.splitlines()
        assert alone == ["warning: q of iql", "warning: q in one"]

    def test_what_is_on_the_page(self, write: Any) -> None:
        page = write("one", "two")
        for words in (
            "What was trained on what",
            "Scores",
            "Learning curves",
            "Diagnostics",
            "Data",
            "How to reproduce",
        ):
            assert words in page.text
        assert "Settings that differ" in page.text
        assert "algo_kwargs.expectile" in page.text
        assert "Probability of improvement" in page.text
        assert "no held-out episodes: every episode of the data was trained on" in page.text

    def test_metrics_say_what_is_good(self, write: Any) -> None:
        text = write("one").text
        assert "critic/q_data : Value of the data's actions; should settle near" in text
        assert "Learning curves" in text

    def test_notes_on_reading_stand_with_the_data(self, write: Any, folder: Path, tmp_path: Path) -> None:
        path = copied(folder, "one", tmp_path / "noted")
        facts = json.loads((path / "run.json").read_text())
        notices = [*facts.get("notices", []), "memory may run short"]
        (path / "run.json").write_text(json.dumps({**facts, "notices": notices}))
        text = write(path).text
        before = text[: text.index("Trained on by: ")]
        assert "memory may run short" in before
        for note in facts.get("notices", []):
            assert note not in before

    def test_what_is_of_the_machine_stands_with_how_to_reproduce(
        self, write: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(machine_load, "_load", lambda: 1e3)
        (busy,) = machine_load.busy_notice(2)
        tight = f"{MemoryNeed('cpu', 1, 2**30, 0, 2**30)}: it may run short"
        path = copied(folder, "one", tmp_path / "noted")
        facts = json.loads((path / "run.json").read_text())
        notices = {"notices": [busy, tight, "weights were taken from x"], "machine_notices": [busy, tight]}
        (path / "run.json").write_text(json.dumps(facts | notices))
        before, after = write(path, options=("--no-data",)).text.split("How to reproduce")[-2:]
        assert "weights were taken from x" in before
        assert f"noted at its start {busy}; {tight}" in after
        assert busy not in before
        assert tight not in before

    def test_scores_are_the_runs_own(self, write: Any, folder: Path) -> None:
        text = write("one").text
        records = [json.loads(line) for line in (folder / "one" / "evaluations.jsonl").read_text().splitlines()]
        expected = statistics.bootstrap([records[-1]["return_mean"]])
        assert expected.low is not None
        assert expected.high is not None
        value, low, high = alike(expected.value, expected.low, expected.high)
        assert f"{value} [{low}, {high}]" in text
        best = max(records, key=lambda record: np.mean(record["return_mean"]))
        last, highest = (np.array(record["return_mean"]) for record in (records[-1], best))
        numbers = [float(value) for value in (highest.mean(), last.mean(), last.std(ddof=1))]
        best_text, mean, std = alike(*numbers)  # to the same digit, as they are held to one another
        assert f"{mean} ± {std} {best_text} ({best['step']})" in text

    def test_what_holds_for_several_runs_is_said_once(self, write: Any, folder: Path, tmp_path: Path) -> None:
        said = {"a": ["bounds were guessed", "only a"], "b": ["bounds were guessed"], "c": ["bounds were guessed"]}
        for name, notices in said.items():
            path = copied(folder, "one", tmp_path / name)
            facts = json.loads((path / "run.json").read_text())
            (path / "run.json").write_text(json.dumps({**facts, "notices": notices}))
        text = write(*(tmp_path / name for name in said)).text
        assert text.count("bounds were guessed") == 1
        assert "All 3 runs : bounds were guessed" in text
        assert "a : only a" in text
        assert "a and b : bounds were guessed" in write(tmp_path / "a", tmp_path / "b").text
        assert "The same for all 3 runs: started" in text
        version = json.loads((tmp_path / "a" / "run.json").read_text())["versions"]["torch"]
        assert text.count(f"torch {version}") == 1

    def test_nothing_comes_from_elsewhere(self, write: Any) -> None:
        page = write("one", "two")
        tags = {tag for tag, _ in page.elements}
        assert not tags & {"link", "img", "iframe", "object", "embed", "form", "base"}
        links = [
            attrs.get(name) for _, attrs in page.elements for name in ("href", "src", "xlink:href") if name in attrs
        ]
        assert links
        assert all(link and link.startswith("#") for link in links)
        (policy,) = [attrs["content"] for tag, attrs in page.elements if attrs.get("http-equiv")]
        assert policy is not None
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert not [attrs for _, attrs in page.elements if "style" in attrs or any(n.startswith("on") for n in attrs)]

    def test_the_policy_knows_the_pages_own_script_and_style(self, command: Any, folder: Path, tmp_path: Path) -> None:
        import base64
        import hashlib

        command("report", folder / "one", "-o", "page.html", "--no-data")
        text = (tmp_path / "page.html").read_text("utf-8")
        for kind in ("script", "style"):
            (inside,) = re.findall(rf"<{kind}>(.*?)</{kind}>", text, flags=re.DOTALL)
            digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
            assert f"{kind}-src 'sha256-{digest}'" in text

    def test_held_out_data(self, write: Any, folder: Path) -> None:
        text = write("one", options=("--held-out", str(folder / "log.npz"))).text
        assert "Held out: " in text
        assert "no held-out" not in text

    def test_held_out_data_that_cannot_be_used_are_told_of_and_actions_outside_are_clipped(
        self, write: Any, command: Any, folder: Path
    ) -> None:
        log = TransitionDataset.load(folder / "log.npz")
        actions = log.actions.copy()
        actions[3] = 70.0
        TransitionDataset.from_dict(log.to_dict() | {"actions": actions}).save("far.npz")
        asked = ("report", folder / "one", "-o", "far.html", "--force", "--held-out")
        code, _, err = command(*asked, "far.npz")
        assert code == 0
        assert f"warning: far.npz: 1 of {len(log):,} actions lies outside the bounds the policy was trained with" in err
        assert "Held out: far.npz" in Reader(Path("far.html").read_text()).text
        wide = np.concatenate([log.actions, log.actions], axis=1)
        TransitionDataset.from_dict(log.to_dict() | {"actions": wide}).save("wide.npz")
        code, _, err = command(*asked, "wide.npz")
        said = "warning: wide.npz cannot be used as held-out episodes: actions have 2 columns, but"
        assert (code, said in err) == (0, True)
        assert said in Reader(Path("far.html").read_text()).text

    def test_held_out_data_are_read_as_the_runs_own(self, write: Any, command: Any, mistake: Any) -> None:
        made = np.random.default_rng(0).uniform(-1, 1, (60, 4))
        columns = {"obs": ["a", "b"], "actions": "u", "rewards": "r", "terminations": "end"}
        for name, rows in (
            ("own.csv", made[:40]),
            ("hold.csv", made[40:]),
            ("other.csv", made[:24]),
            ("half.csv", made[24:56]),
        ):
            lines = [",".join(f"{value:.6f}" for value in row) + f",{int(n % 8 == 7)}" for n, row in enumerate(rows)]
            Path(name).write_text("\n".join(["a,b,u,r,end", *lines]) + "\n")
        section = {"source": "file", "path": "own.csv", "columns": columns}
        path = train(small_config(None, Path(), "iql", name="mapped", dataset=section, total_timesteps=2)).run.path
        assert "Held out: hold.csv." in write(path.resolve(), options=("--held-out", "hold.csv")).text
        asked = ("report", path, "-o", "new.html", "--held-out")
        assert mistake(*asked, "hold.cv") == "error: --held-out hold.cv: no such file; did you mean 'hold.csv'?"
        Path("odd.csv").write_text("x,y\n1,2\n")
        assert mistake(*asked, "odd.csv").startswith("error: --held-out odd.csv: ")
        assert "choose one of them" in mistake(*asked, "hold.csv", "--no-data")
        code, _, err = command(*asked, "hold.csv")
        assert (code, err) == (0, "")
        code, _, err = command(*asked, "other.csv", "--force")
        assert code == 0
        assert err.startswith("warning: other.csv: 100% of its rows were trained on")
        assert "warning: other.csv: 100% of its rows were trained on" in Reader(Path("new.html").read_text()).text
        said = "warning: half.csv: 50% of its rows (about 2 of 4 episodes) were trained on, so its TD error is not a"
        assert command(*asked, "half.csv", "--force").err.startswith(said)
        assert said in Reader(Path("new.html").read_text()).text

    def test_generated_data_get_fresh_episodes(self, write: Any, folder: Path, tmp_path: Path) -> None:
        config = small_config(
            None,
            tmp_path,
            "iql",
            name="random",
            env_id=ENV,
            dataset={"source": "random", "size": 40},
            total_timesteps=2,
        )
        text = write(train(config).run.path).text
        assert "Held out: new random episodes, of another seed." in text

    def test_without_data(self, write: Any) -> None:
        text = write("one", options=("--no-data",)).text
        assert "Left out (--no-data)" in text
        assert "No histograms: left out (--no-data)." in text

    def test_a_title_of_ones_own(self, write: Any) -> None:
        assert "All <mine>" in write("one", options=("--title", "All <mine>", "--no-data")).text

    def test_the_same_run_twice_is_one(self, write: Any) -> None:
        assert "; 1 run." in write("one", "one", options=("--no-data",)).text

    def test_the_command_it_names_makes_the_same_run(self, write: Any, command: Any, folder: Path) -> None:
        lines = [line for line in write("one", options=("--no-data",)).words if line.startswith("rl-training train")]
        words = lines[0].splitlines()[0].split()[1:]
        assert command(*words, "--quiet", "--runs-dir", "again").code == 0
        ours, theirs = (
            (place / "evaluations.jsonl").read_text() for place in (Path("again/one-again"), folder / "one")
        )
        assert ours == theirs


class TestAChangedBudget:
    """How to reproduce a run that went on under another budget than it was started with."""

    @pytest.mark.parametrize(("algo", "stop"), [("iql", None), ("iql", 6), ("bc", 6)])
    def test_what_is_promised(self, algo: str, stop: int | None, write: Any, command: Any, folder: Path) -> None:
        changes = {"name": "longer", "total_timesteps": 8, "log_interval": 4, "engine": "eager"}
        config = small_config(folder / "log.npz", Path("runs"), algo, **changes)
        run = train(config, callbacks=[StopAt(stop)] if stop else []).run
        assert command("resume", "longer", "--total-timesteps", 12, "--quiet").code == 0
        page = write(run.path.resolve(), options=("--no-data",))
        assert f"Its budget was changed: at update {stop or 8} from 8 to 12." in page.text
        assert ("Its learning rates (actor: cosine) depend on the budget" in page.text) is (algo == "iql")
        assert ("which gives other weights" in page.text) is (algo == "iql" and stop is not None)
        (block,) = [words for words in page.words if words.startswith("rl-training train")]
        for line in block.splitlines():
            assert command(*shlex.split(line)[1:], "--quiet").code == 0
        again = RunDirectory.open(Path("runs/longer-again"))
        same = digest(again.load().tensors) == digest(run.load().tensors)
        assert same is (algo == "bc" or stop is None)


class TestRunsOfEveryKind:
    def test_one_seed_has_no_interval(self, write: Any) -> None:
        text = write("cloned").text
        assert "learns no values" in text
        assert "Performance profiles" not in text
        assert (
            "Return in Cliff-report-v0 during training. One seed: the line is its own, and there is no band; each"
            in text
        )
        for words in ("over seeds (line)", "interval over seeds", "mean over seeds", "bootstrap"):
            assert words not in text
        assert "(band); no band of a single seed" in write("one", "cloned").text

    def test_without_an_environment(self, write: Any) -> None:
        page = write("blind")
        text = page.text
        assert "blind : no scores, as there was no environment in training: rl-training evaluate RUN --offline" in text
        assert "scores" not in [attrs.get("id") for tag, attrs in page.elements if tag == "section"]
        assert "no scores" in write("one", "blind").text  # among the scores of others
        assert "Learning curves" not in text
        assert "Metrics of training" in text
        assert "Distance of the policy's action" in text

    def test_interrupted(self, write: Any) -> None:
        text = write("stopped").text
        assert "This run ended interrupted: asked to" in text
        assert "6 of 12 updates" in text

    def test_running(self, write: Any, folder: Path, tmp_path: Path) -> None:
        run = copied(folder, "one", tmp_path / "running")
        facts = json.loads((run / "run.json").read_text())
        (run / "run.json").write_text(json.dumps({**facts, "status": "running"}))
        with (run / "evaluations.jsonl").open("a") as file:
            file.write('{"step": 16, "seeds": [0, 1')  # being written
        with run_lock.held(run):
            page = write(run)
        assert "Still running when this page was written" in page.text
        assert "damaged" not in page.text
        assert "This run was killed" in write(run).text

    def test_just_started(self, write: Any, folder: Path, tmp_path: Path) -> None:
        run = copied(folder, "one", tmp_path / "young")
        for name in ("evaluations.jsonl", "metrics.jsonl"):
            (run / name).unlink()
        shutil.rmtree(run / "checkpoints")
        text = write(run).text
        assert "no checkpoint to look into" in text
        assert "no scores yet: it was not evaluated while it trained. rl-training evaluate RUN prints some." in text
        assert "Return of an episode" in text  # the data are there all the same

    def test_one_seed_diverged(self, write: Any) -> None:
        text = write("part-diverged").text
        assert "Seed 1 diverged and was stopped" in text
        assert "Q against the return-to-go" in text

    def test_every_seed_diverged(self, write: Any, folder: Path, tmp_path: Path) -> None:
        run = copied(folder, "one", tmp_path / "gone")
        facts = json.loads((run / "run.json").read_text())
        (run / "run.json").write_text(json.dumps({**facts, "status": "diverged", "reason": "every seed diverged"}))
        assert "This run ended diverged: every seed diverged" in write(run).text

    @pytest.mark.parametrize("options", [(), ("--no-data",)])
    def test_bounds_of_actions_and_names_as_written(self, options: tuple[str, ...], write: Any) -> None:
        rows = np.random.default_rng(0).uniform(20, 60, (64, 4))
        lines = [",".join(f"{value:.4f}" for value in row) + f",{int(n % 8 == 7)}" for n, row in enumerate(rows)]
        Path("log.csv").write_text("\n".join(["Aussen [°C],Rohr [°C],Luken [%],r,end", *lines]) + "\n")
        columns = {"obs": "Aussen [°C]", "actions": ["Rohr [°C]", "Luken [%]"], "rewards": "r", "terminations": "end"}
        section = {"source": "file", "path": "log.csv", "columns": columns, "action_low": 0, "action_high": [70, 100]}
        path = train(small_config(None, Path(), "bc", name="bounded", dataset=section, total_timesteps=2)).run.path
        page = write(path.resolve(), options=options)
        assert "bounds of actions [0, 70], [0, 100] (as given)" in page.text
        assert [words for words in page.words if words in ("[0, 70]", "[0, 100]")] == ["[0, 70]", "[0, 100]"]
        if not options:
            assert "action Rohr [°C]" in page.words  # under the axis
            assert "Action Luken [%] : mean" in page.text
            choices = {name: value for name, value in section.items() if name not in ("source", "path")}
            TransitionDataset.load("log.csv", **choices).save("log.npz")
            again = train(small_config(Path("log.npz"), Path(), "bc", name="written", total_timesteps=2)).run.path
            text = write(again.resolve()).text
            assert "bounds of actions [0, 70], [0, 100] (as given when the data were written)" in text
            assert "columns: (obs: Aussen [°C]; actions: Rohr [°C], Luken [%]; rewards: r; terminations: end)" in text
            assert "Bounds: [0, 100] (solid lines)." in page.text
            told = [attrs.get("aria-label") or "" for name, attrs in page.elements if name == "svg"]
            pictures = [label.partition(":")[0] for label in told if ": from " in label]
            actions = ["Action Rohr [°C]", "Action Luken [%]"]
            assert pictures == [
                "Return of an episode",
                "Reward of a step",
                *actions,
            ]  # none is left over and drawn twice
            bounds = [attrs for _, attrs in page.elements if attrs.get("class") == "bound"]
            assert len(bounds) == 2 * len(actions)

    def test_columns_of_an_array_are_counted(self, write: Any) -> None:
        rows = np.random.default_rng(0).uniform(-1, 1, (32, 4))
        lines = [",".join(f"{value:.4f}" for value in row) + f",{int(n % 8 == 7)}" for n, row in enumerate(rows)]
        Path("log.csv").write_text("\n".join(["obs[0],actions[0],actions[1],rewards,terminations", *lines]) + "\n")
        section = {"source": "file", "path": "log.csv"}
        path = train(small_config(None, Path(), "bc", name="table", dataset=section, total_timesteps=2)).run.path
        text = write(path.resolve()).text
        assert "Action, dimension 1 : mean" in text
        assert "Action actions" not in text

    def test_no_folder_stands_on_the_page(self, write: Any, folder: Path, tmp_path: Path) -> None:
        runs = [copied(folder, "one", tmp_path / place / "one") for place in ("a", "b")]
        for run in runs:
            (run / "evaluations.jsonl").unlink()
            (run / "metrics.jsonl").write_text("{broken\n")
            estimate = {"step": 12, "data": {"title": str(folder / "log.npz"), "episodes": 8}, "behaviour": {}}
            (run / "offline_evaluations.jsonl").write_text(json.dumps(estimate) + "\n")
            for weights in run.glob("checkpoints/*/weights.safetensors"):
                weights.write_bytes(b"broken")
        page = write(*runs)
        assert "8 episodes of log.npz" in page.text
        assert "a/one and b/one : " in page.text
        typed = [words for words in page.words if words.startswith("rl-training train")]
        assert len(typed) == 2  # commands to be run, which say where
        rest = [words for words in page.words if words not in typed]
        assert [words for words in rest if str(folder) in words or str(tmp_path) in words] == []

    def test_data_that_moved(self, write: Any, folder: Path, tmp_path: Path) -> None:
        run = copied(folder, "one", tmp_path / "moved")
        config = yaml_dialect.read((run / "config.yaml").read_text())
        config["dataset"]["path"] = "/nowhere/log.npz"
        (run / "config.yaml").write_text(yaml_dialect.write(config))
        text = write(run).text
        assert "the data are not at hand" in text
        assert "log.npz" in text
        assert "/nowhere" not in text  # a page is shared; where files lie is nobody else's business
        assert "64" in text  # transitions, as run.json has them

    def test_data_that_changed(self, write: Any, folder: Path, tmp_path: Path) -> None:
        run = copied(folder, "one", tmp_path / "changed")
        facts = json.loads((run / "run.json").read_text())
        facts["dataset"]["fingerprint"] = "0" * 64
        (run / "run.json").write_text(json.dumps(facts))
        assert "the data have changed since it was trained" in write(run).text

    def test_several_environments_are_kept_apart(self, write: Any, folder: Path, tmp_path: Path) -> None:
        run = copied(folder, "two", tmp_path / "elsewhere")
        config = yaml_dialect.read((run / "config.yaml").read_text())
        (run / "config.yaml").write_text(yaml_dialect.write({**config, "env_id": "Hopper-v5"}))
        text = write("one", run, options=("--no-data",)).text
        assert "Probability of improvement" not in text
        assert "normalised IQM [95%]" in text
        assert "(D4RL)" in text


class TestManyRuns:
    """The page grows with the runs, not with their square, nor with how long they trained."""

    @staticmethod
    def copies(folder: Path, target: Path, count: int, records: int) -> list[Path]:
        runs = [shutil.copytree(folder / "one", target / f"r{i:02}") for i in range(count)]
        rng = np.random.default_rng(0)
        for run in runs:
            scores = rng.normal(size=(records, 3)).tolist()
            lines = [
                {"step": 1 + i, "seeds": [0, 1, 2], "episodes": 2, "return_mean": row} for i, row in enumerate(scores)
            ]
            (run / "evaluations.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            facts = json.loads((run / "run.json").read_text())
            (run / "run.json").write_text(json.dumps({**facts, "notices": ["said of all"]}))
        return runs

    def test_are_compared_with_the_best_and_these_with_one_another(self, folder: Path, tmp_path: Path) -> None:
        runs = read_runs(self.copies(folder, tmp_path, 26, 3))
        compared = tables.improvements(runs)
        best = max(runs, key=lambda run: tables.last_estimate(run).value)  # type: ignore[union-attr]
        assert len(compared) == tables.MOST_COMPARED * (tables.MOST_COMPARED - 1) // 2 + 26 - tables.MOST_COMPARED
        assert sum(best in (one, other) for one, other, _ in compared) == 25

    def test_have_fewer_points_each_and_notes_are_said_once(self, write: Any, folder: Path, tmp_path: Path) -> None:
        paths = self.copies(folder, tmp_path, 40, 500)
        assert {len(run.evaluations.thinned.steps) for run in read_runs(paths) if run.evaluations} == {72}
        assert {len(run.evaluations.thinned.steps) for run in read_runs(paths[:2]) if run.evaluations} == {125}
        text = write(*paths, options=("--no-data",)).text
        assert "All 40 runs : said of all" in text
        assert text.count("said of all") == 1
        assert "Every pair of the 20 runs that score highest, and the highest beside all others" in text


class TestBrokenRuns:
    @pytest.mark.parametrize("name", ["run.json", "config.yaml"])
    @pytest.mark.parametrize("contents", ["", "{", "[]", "null", '"x"'])
    def test_damaged_descriptions(self, name: str, contents: str, write: Any, folder: Path, tmp_path: Path) -> None:
        run = copied(folder, "one", tmp_path / "damaged")
        (run / name).write_text(contents)
        page = write(run, "two", options=("--no-data",))
        assert "damaged" in page.text
        assert name in page.text
        assert "two" in page.text

    def test_what_can_be_read_is_shown(self, write: Any, folder: Path, tmp_path: Path) -> None:
        run = copied(folder, "one", tmp_path / "damaged")
        (run / "run.json").write_text("{")
        text = write(run, options=("--no-data",)).text
        assert "run.json: cannot be read" in text
        assert "Return in Cliff-report-v0 during training" in text

    @pytest.mark.parametrize(
        "line",
        [
            "{broken",
            "[]",
            '{"step": "x"}',
            '{"step": 99, "seeds": [0, 1, 2], "return_mean": "high"}',
            '{"step": 99, "seeds": [0], "return_mean": [1, 2, 3]}',
            '{"step": 99, "seeds": [0, 1, 2], "return_mean": [NaN, NaN, NaN]}',
            '{"step": 99, "seeds": [0, 1, 7], "return_mean": [1, 2, 3]}',
            '{"step": 99, "seeds": [0, 1, 2], "return_mean": [1e308, -1e308, 1e308]}',
            '{"step": 99, "seeds": [0, 1, 2], "return_mean": [1%s, 0, 0]}' % ("0" * 400),
            '{"step": 1%s, "seeds": [0, 1, 2], "return_mean": [1, 2, 3]}' % ("0" * 400),
        ],
    )
    def test_damaged_records(self, line: str, write: Any, folder: Path, tmp_path: Path) -> None:
        run = copied(folder, "one", tmp_path / "damaged")
        with (run / "evaluations.jsonl").open("a") as file:
            file.write(line + "\n")
        page = write(run, options=("--no-data",))
        assert "Learning curves" in page.text
        if line == "{broken":
            assert "evaluations.jsonl: 1 line damaged and left out (4)" in page.text

    def test_a_line_of_records_without_end(self, write: Any, folder: Path, tmp_path: Path) -> None:
        run = copied(folder, "one", tmp_path / "damaged")
        with (run / "metrics.jsonl").open("ab") as file:
            line = (run / "metrics.jsonl").read_bytes().count(b"\n") + 1
            file.truncate(10**12)  # a hole: nothing is stored
        page = write(run, options=("--no-data",))
        assert f"metrics.jsonl: line {line} is longer than any record (16,777,216 bytes); it and what" in page.text

    def test_a_damaged_checkpoint(self, write: Any, folder: Path, tmp_path: Path) -> None:
        run = copied(folder, "one", tmp_path / "damaged")
        for weights in run.glob("checkpoints/*/weights.safetensors"):
            weights.write_bytes(b"broken")
        text = write(run).text
        assert "no checkpoint to look into" in text
        assert "weights.safetensors: damaged" in text

    def test_hostile_strings_stay_strings(self, write: Any, folder: Path, tmp_path: Path) -> None:
        run = copied(folder, "one", tmp_path / "\"><script>alert('x')<")
        config = yaml_dialect.read((run / "config.yaml").read_text())
        config |= {"dataset": {"source": "file", "path": HOSTILE}, "env_id": HOSTILE, "algo": HOSTILE, HOSTILE: HOSTILE}
        (run / "config.yaml").write_text(yaml_dialect.write(config))
        facts = json.loads((run / "run.json").read_text())
        facts |= {"reason": HOSTILE, "status": HOSTILE, "notices": [HOSTILE], "unit": HOSTILE, "created": HOSTILE}
        facts |= {"versions": {HOSTILE: HOSTILE}, "divergences": [{"seed": HOSTILE, "what": HOSTILE}]}
        facts["dataset"] |= {"fingerprint": HOSTILE}
        (run / "run.json").write_text(json.dumps(facts))
        with (run / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({"step": 99, HOSTILE: [1.0, 2.0, 3.0]}) + "\n")
        page = write(run, "two")
        assert len([tag for tag, _ in page.elements if tag == "script"]) == 1
        assert not [tag for tag, _ in page.elements if tag == "img"]
        assert not [attrs for _, attrs in page.elements if any(name.startswith("on") for name in attrs)]
        assert HOSTILE in unescape(page.text)

    def test_mistakes(self, mistake: Any, folder: Path, tmp_path: Path) -> None:
        assert mistake("report", folder / "tow").endswith("tow: no such run; did you mean 'two'?")
        assert "holds no run" in mistake("report", tmp_path)
        assert "is a folder" in mistake("report", folder / "one", "-o", ".", "--no-data")
        (tmp_path / "page.html").write_text("mine")
        assert "exists already; --force replaces it" in mistake("report", folder / "one", "-o", "page.html")
        said = mistake("report", folder / "one", "-o", "page.html/in.html", "--no-data")
        assert said.startswith("error: --output page.html/in.html: page.html is no folder")
        said = mistake("report", folder / "one", "-o", "page.pdf", "--no-data")
        assert said == f"error: --output page.pdf: {A_REPORT_IS_HTML}"
        assert not Path("page.pdf").exists()
