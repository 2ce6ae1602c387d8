"""`rl-training export` and `rl-training push`: files, cards, folders, and mistakes in one line."""

from __future__ import annotations

import fcntl
import json
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from rl_training import yaml_dialect
from rl_training.cli.known_quality import quality, value_of
from rl_training.data.formats import atomic
from rl_training.experiment.costs import Shown
from rl_training.experiment.offline_doubts import TOO_SHORT
from rl_training.experiment.shipping import exporting
from rl_training.experiment.shipping.hub import SCRIPT, page
from rl_training.run_places import LOCK
from rl_training.runtime.trainer import train
from small_runs import StopAt, files_under, small_config

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (extra `dev` has it)")

NOTHING_HERE = "nothing was trained here yet: runs are looked for in ./runs, one elsewhere is given by its path"


class TestExport:
    def test_one_file_and_its_card(self, command: Any, run: Path, tmp_path: Path) -> None:
        code, out, err = command("export", run)
        assert (code, err) == (0, "")
        assert out.startswith("run.onnx: bc seed 4, update 20, not evaluated; ")
        assert out.endswith(f"quality: this checkpoint was never evaluated: rl-training evaluate {run} --offline\n")
        assert set(files_under(tmp_path)) == {"run.onnx", "run.onnx.json"}
        (actions,) = onnxruntime.InferenceSession("run.onnx").run(None, {"obs": np.ones((1, 3), np.float32)})
        assert json.loads(command("predict", run, "--obs", "1,1,1").out) == pytest.approx(actions[0].tolist(), abs=1e-5)

    def test_of_a_run_whose_budget_is_in_epochs(self, command: Any, data_file: Path, tmp_path: Path) -> None:
        changes = {"total_timesteps": None, "n_epochs": 2, "name": "part"}
        run = train(small_config(data_file, tmp_path / "runs", **changes), callbacks=[StopAt(3)]).run
        total = run.load().progress["total_steps"]
        code, _, err = command("export", "part")
        assert code == 0
        assert err.startswith(f"warning: the run was interrupted at update 3 of {total}; ")
        assert json.loads(Path("part.onnx.json").read_text())["policy"]["total"] == total

    @pytest.mark.parametrize(
        ("status", "how", "way"),
        [
            ("interrupted", "was interrupted at", "; `rl-training resume part` goes on"),
            ("running", "was killed after", "; `rl-training resume part` goes on"),
            ("failed", "failed after", "; `rl-training resume part` goes on"),
            ("locked", "is still being trained, at", ""),
        ],
    )
    def test_a_run_that_is_not_finished(
        self, command: Any, run: Path, tmp_path: Path, status: str, how: str, way: str
    ) -> None:
        part = shutil.copytree(run, tmp_path / "runs" / "part")
        facts = json.loads((part / "run.json").read_text())
        (part / "run.json").write_text(json.dumps({**facts, "status": "running" if status == "locked" else status}))
        with (part / LOCK).open("w") as lock:
            if status == "locked":
                fcntl.flock(lock, fcntl.LOCK_EX)
            code, _, err = command("export", "part")
        assert (code, err) == (0, f"warning: the run {how} update 20 of 20{way}\n")
        told = json.loads(Path("part.onnx.json").read_text())["policy"]
        expected = {"running": "stopped", "locked": "running"}.get(status, status)
        assert (told["status"], told["total"]) == (expected, 20)

    def test_one_file_per_seed(self, command: Any, run: Path, tmp_path: Path) -> None:
        assert command("export", run, "--member", "all", "-o", "out/p.onnx").code == 0
        names = {"out/p-seed-4.onnx", "out/p-seed-2.onnx"}
        assert set(files_under(tmp_path)) == names | {f"{name}.json" for name in names}
        assert json.loads((tmp_path / "out/p-seed-2.onnx.json").read_text())["policy"]["seed"] == 2

    def test_a_seed_by_its_position(self, command: Any, run: Path) -> None:
        command("export", run, "--member", "1", "-o", "a.onnx", "--which", "10")
        command("export", run, "--seed", "2", "-o", "b.onnx", "--which", "10")
        assert Path("a.onnx").read_bytes() == Path("b.onnx").read_bytes()
        assert "--which 10 --seed 2" in Path("a.onnx.json").read_text()

    def test_the_card_makes_it_again(self, command: Any, run: Path, data_file: Path) -> None:
        command("export", run, "-o", "first.onnx")
        card = json.loads(Path("first.onnx.json").read_text())
        Path("config.yaml").write_text(json.dumps(card["reproduce"]["config.yaml"]))
        Path("pendulum.npz").write_bytes(data_file.read_bytes())
        for line in card["reproduce"]["commands"]:
            line = line.replace("first.onnx", "again.onnx")
            assert command(*line.split()[1:]).code == 0
        assert Path("again.onnx").read_bytes() == Path("first.onnx").read_bytes()

    def test_nowhere_for_temporary_files(self, run: Path, tmp_path: Path) -> None:
        """Torch wants some; nothing can be written anywhere."""
        done = subprocess.run(
            [sys.executable, "-m", "rl_training", "export", str(run), "-o", str(tmp_path / "p.pt2")],
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
            capture_output=True,
            text=True,
            check=False,
        )
        told = "error: no folder for temporary files can be written to; make room, or name another: TMPDIR=FOLDER\n"
        assert (done.returncode, done.stderr) == (2, told)

    def test_nothing_is_replaced_unasked(self, command: Any, mistake: Any, run: Path) -> None:
        Path("p-seed-2.onnx.json").write_text("mine")
        assert mistake("export", run, "--member", "all", "-o", "p.onnx") == (
            "error: p-seed-2.onnx.json: exists already; --force replaces it"
        )
        assert command("export", run, "--seed", "2", "-o", "p-seed-2.onnx", "--force").code == 0
        assert json.loads(Path("p-seed-2.onnx.json").read_text())["policy"]["seed"] == 2

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["--format", "onxx"], "format: 'onxx' is not known; did you mean 'onnx'?"),
            (["--format", "torch", "-o", "p.onnx"], "p.onnx: a file of format torch ends in .pt2"),
            (["-o", "p.bin"], "p.bin: must end in .onnx (onnx) or .pt2 (torch)"),
            (["--stochastic"], "--stochastic: this BC policy is deterministic; leave the option out"),
            (["--seed", "3"], "seed: 3 is not in this run; it has 4, 2"),
            (["--member", "2"], "--member: must be 0 to 1 or all, got '2'"),
            (["--member", "0", "--seed", "4"], "export: give --seed or --member, not both"),
            (["--which", "7"], "no checkpoint 7; choose from last, 10, 20"),
            (["-o", "/proc/p.onnx"], "/proc/p.onnx: /proc is the system's own, and no file can be made in it; choose"),
        ],
    )
    def test_mistakes(self, mistake: Any, run: Path, words: list[str], said: str) -> None:
        assert said in mistake("export", run, *words)

    def test_a_card_never_lies_beside_another_file(
        self, command: Any, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """When the new file is in its place and the new card is not, there is none; interrupted then, both are back."""
        file, card = tmp_path / "policy.onnx", tmp_path / "policy.onnx.json"
        assert command("export", run, "-o", file).code == 0
        before, seen = (file.read_bytes(), card.read_bytes()), []

        def put(temporary: Path, target: Path, *, replace: bool) -> None:
            atomic.put(temporary, target, replace=replace)
            seen.append((target, card.exists()))
            raise KeyboardInterrupt

        monkeypatch.setattr(exporting, "put", put)
        assert command("export", run, "-o", file, "--force").code == 130
        assert seen == [(file, False)]
        assert (file.read_bytes(), card.read_bytes()) == before

    @pytest.mark.parametrize("theirs", ["p.onnx", "p.onnx.json"])
    def test_what_came_meanwhile_stays(
        self, command: Any, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theirs: str
    ) -> None:
        make = exporting.make_card

        def slow(*arguments: Any) -> Any:
            Path(theirs).write_text("theirs")
            return make(*arguments)

        monkeypatch.setattr(exporting, "make_card", slow)
        code, out, err = command("export", run, "-o", "p.onnx")
        assert (code, out, err) == (2, "", f"error: {theirs}: exists already; --force replaces it\n")
        assert files_under(tmp_path) == {theirs: b"theirs"}

    def test_no_such_run(self, mistake: Any) -> None:
        told = f"error: nowhere: no such run ({NOTHING_HERE}); train first: rl-training train -c FILE"
        assert mistake("export", "nowhere") == f"{told}; for data of your own `rl-training init DATA` writes FILE"

    def test_what_lies_one_folder_up(self, mistake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("tram", "bus"):
            (tmp_path / "runs" / name).mkdir(parents=True)
            (tmp_path / "runs" / name / "run.json").touch()
        (tmp_path / "config.yaml").write_text("algo: iql\n")
        (tmp_path / "sub").mkdir()
        monkeypatch.chdir(tmp_path / "sub")
        for words in (("export", "tram"), ("report", "tram")):
            assert mistake(*words).endswith("; runs in ../runs: bus, tram; did you mean '../runs/tram'?")
        assert mistake("train", "-c", "config.yaml").endswith("no file config.yaml; did you mean '../config.yaml'?")

    @pytest.mark.parametrize("words", [("export",), ("evaluate",), ("report",), ("resume",), ("predict", "--obs", "1")])
    def test_nothing_trained_yet(self, words: tuple[str, ...], mistake: Any, tmp_path: Path) -> None:
        (tmp_path / "services.yml").write_text("services: {}\n")
        (tmp_path / "glass house.yaml").write_text("algo: iql\n")
        train = "rl-training train -c 'glass house.yaml'"
        told = f"no such run ({NOTHING_HERE}); train first: {train}"
        assert mistake(*words, "first") == f"error: first: {told}"
        (tmp_path / "other.yaml").write_text("algo: iql\n")
        assert mistake(*words, "glass-house") == f"error: glass-house: {told}"
        (tmp_path / "runs").mkdir()
        assert mistake(*words, "first") == f"error: runs/first: {told.replace(repr('glass house.yaml'), 'FILE')}"
        there = mistake(*words, tmp_path / "elsewhere" / "first")
        assert "no such run (nothing was trained here yet); train first" in there
        told = f"is a configuration, not a run; {train} makes one"
        assert mistake(*words, "glass house.yaml") == f"error: glass house.yaml: {told}"

    def test_a_fixed_number_of_rows(self, command: Any, run: Path) -> None:
        assert command("export", run, "--batch", "8").code == 0
        assert onnxruntime.InferenceSession("run.onnx").get_inputs()[0].shape == [8, 3]
        assert json.loads(Path("run.onnx.json").read_text())["inputs"][0]["shape"] == [8, 3]

    @pytest.mark.parametrize(("batch", "checked"), [("1", 256), ("100", 300), ("1000", 1000)])
    @pytest.mark.parametrize("name", ["a.onnx", "a.pt2"])
    def test_is_compared_on_as_many_observations_as_any(
        self, command: Any, run: Path, name: str, batch: str, checked: int
    ) -> None:
        assert command("export", run, "--batch", batch, "-o", name).code == 0
        card = json.loads(Path(f"{name}.json").read_text())
        assert card["inputs"][0]["shape"] == [int(batch), 3]
        assert card["check"]["observations"] == checked

    @pytest.mark.parametrize("batch", ["65537", "3000000000000", "99999999999999999999"])
    def test_more_rows_than_can_be_compared(self, mistake: Any, run: Path, batch: str) -> None:
        told = f"error: batch: must be a whole number from 1 to 65536, got {batch}; any: leave it out"
        assert mistake("export", run, "--batch", batch) == told


def estimate(value: float, low: float, high: float, **changes: Any) -> dict[str, Any]:
    gain = {"value": value, "low": low, "high": high, "probability": 0.9}
    return {"improvement": gain, "not_trusted_because": [], "cautions": [], "level": 0.95} | changes


class TestQuality:
    """One line on what is known of a policy."""

    BARE: ClassVar[dict[str, Any]] = {
        **dict.fromkeys(("scores", "offline_evaluation", "environment", "dataset")),
        "policy": {"seed_caution": None},
    }

    @pytest.mark.parametrize(
        ("found", "told"),
        [
            (
                estimate(3.25, 1.5, 5.0),
                "better than the behaviour that recorded the data: improvement +3.25, 95% interval 1.5 to 5,"
                " estimated from the data alone",
            ),
            (
                estimate(1.5, -1.0, 4.0, cautions=["a newer estimate was refused, because so"]),
                "not shown to be better than the behaviour that recorded the data: improvement +1.5, 95% interval"
                " -1 to 4, estimated from the data alone; a newer estimate was refused",
            ),
            (
                estimate(-2.0, -3.0, -1.0),
                "worse than the behaviour that recorded the data: improvement -2, 95% interval -3 to -1,"
                " estimated from the data alone",
            ),
            (
                estimate(
                    3.25,
                    1.5,
                    5.0,
                    gamma=0.95,
                    behaviour={"steps": 96.0},
                    cautions=["an estimate that looks further ahead was refused, because so"],
                ),
                "better than the behaviour that recorded the data over the first 20 or so of 96 steps of an episode:"
                " improvement +3.25 discounted by 0.95, 95% interval 1.5 to 5, estimated from the data alone; an"
                " estimate that looks further ahead was refused",
            ),
            (
                estimate(
                    3.25,
                    1.5,
                    5.0,
                    gamma=0.99,
                    data={"share_trained_on": 1.0},
                    cautions=["an estimate of whole episodes was refused, because so"],
                ),
                "better than the behaviour that recorded the data: improvement +3.25 discounted by 0.99, 95% interval"
                " 1.5 to 5, estimated from the data alone, by the episodes it was trained on, which flatters it; an"
                " estimate of whole episodes was refused",
            ),
            (
                estimate(3.25, 1.5, 5.0, disagreement="two estimates disagree: this; that"),
                "not decided whether better than the behaviour that recorded the data: two estimates disagree: this;"
                " that, from the data alone",
            ),
            (
                estimate(0, 0, 0, improvement=None, not_trusted_because=["it is so; do that", "more"]),
                "unknown: there is no reliable estimate, because it is so",
            ),
            (
                estimate(0, 0, 0, improvement=None, not_trusted_because=["no state is alike; more", str(TOO_SHORT)]),
                "not judged yet: a trial fit, shorter than `rl-training evaluate RUN --offline` makes, says nothing of"
                " it",
            ),
        ],
    )
    def test_estimated(self, found: dict[str, Any], told: str) -> None:
        assert quality(self.BARE | {"offline_evaluation": found}, Path("first"), "last") == told

    @pytest.mark.parametrize(
        ("gamma", "told"),
        [
            (0.99, "cost 44.6 EUR discounted by 0.99, against 50.8 as recorded"),
            (1.0, "cost 44.6 EUR undiscounted, against 50.8 as recorded"),
        ],
    )
    def test_a_discounted_cost_stands_beside_the_recorded_one(self, gamma: float, told: str) -> None:
        """Beside the costs of whole episodes, which training tells, it would look like a saving of a third."""
        behaviour = {"value": {"value": -50.77, "low": -55.7, "high": -45.8}}
        found = {"value": {"value": -44.62}, "behaviour": behaviour, "gamma": gamma, "data": {"share_trained_on": 0.0}}
        assert value_of(found, Shown(True, "EUR")) == told
        assert value_of(found | {"data": {"share_trained_on": 1.0}}, Shown(True, "EUR")).startswith(
            f"{told}, by the ep"
        )

    @pytest.mark.parametrize(
        ("of_data", "told"),
        [
            (None, "return -150.0 over 5 episodes of Pendulum-v1 during training"),
            (
                -200.0,
                "return -150.0 over 5 episodes of Pendulum-v1 during training; the data's episodes returned -200.0",
            ),
            (
                -100.0,
                "not shown to be better than the behaviour that recorded the data: return -150.0 over 5 episodes of"
                " Pendulum-v1 during training, the data's episodes returned -100.0",
            ),
        ],
    )
    def test_in_an_environment(self, of_data: float | None, told: str) -> None:
        how = {"environment": "Pendulum-v1", "episodes": 5}
        card = self.BARE | {"scores": {"return_mean": -150.0, "how": how}, "dataset": {"return_mean": of_data}}
        assert quality(card, Path("first"), "last") == told

    def test_costs_keep_their_sign(self) -> None:
        how = {"environment": "Tank-v0", "episodes": 5}
        source = {"rewards_are": "costs", "columns": {"rewards": "price [EUR]"}}
        card = self.BARE | {
            "scores": {"return_mean": -150.0, "how": how},
            "dataset": {"source": source, "return_mean": -200.0},
        }
        told = "cost 150.0 EUR over 5 episodes of Tank-v0 during training; the data's episodes cost 200.0"
        assert quality(card, Path("first"), "last") == told

    def test_never_evaluated(self) -> None:
        told = "this checkpoint was never evaluated: rl-training evaluate"
        assert quality(self.BARE, Path("my run"), "last") == f"{told} 'my run' --offline"
        card = self.BARE | {"environment": "Pendulum-v1"}
        assert quality(card, Path("first"), "20") == f"{told} first --which 20"


class TestPush:
    def test_a_folder_to_look_at(self, command: Any, run: Path, tmp_path: Path) -> None:
        code, out, err = command("push", run, "--repo", "me/swing", "--dry-run", "-o", "folder")
        assert (code, err) == (0, "")
        assert out == "folder: README.md, config.yaml, policy.onnx, policy.onnx.json; nothing was uploaded\n"
        page = (tmp_path / "folder/README.md").read_text()
        metadata = yaml_dialect.read(page.split("---\n")[1])
        assert metadata["library_name"] == "rl-training"
        assert {"reinforcement-learning", "offline-rl", "bc"} <= set(metadata["tags"])
        assert "model-index" not in metadata  # nobody has measured it
        assert "nothing is known about how good it is" in page
        assert json.loads((tmp_path / "folder/policy.onnx.json").read_text())["file"]["sha256"] in page
        assert str(run.parent) not in page + (tmp_path / "folder/config.yaml").read_text()

    @pytest.mark.parametrize("rows", ["many", -3, 1e300, [1]])
    def test_a_description_that_counts_oddly(self, rows: Any, command: Any, run: Path, tmp_path: Path) -> None:
        """As a stranger's run may have it."""
        hers = tmp_path / "hers"
        shutil.copytree(run, hers)
        described = json.loads((hers / "run.json").read_text())
        described["dataset"]["transitions"] = rows
        (hers / "run.json").write_text(json.dumps(described))
        assert command("push", hers, "--repo", "me/swing", "--dry-run", "-o", "folder").code == 0
        assert "transition" not in (tmp_path / "folder/README.md").read_text().split("Fingerprint")[0][-200:]

    def test_the_script_on_the_page_runs(self, command: Any, run: Path, tmp_path: Path) -> None:
        command("push", run, "--repo", "me/swing", "--dry-run", "-o", "folder")
        (script,) = re.findall(r"^```python\n(.*?)^```", Path("folder/README.md").read_text(), re.MULTILINE | re.DOTALL)
        assert script == SCRIPT
        blocked = f"import sys; sys.modules['torch'] = sys.modules['rl_training'] = None\n{script}"
        done = subprocess.run([sys.executable, "-c", blocked], cwd=tmp_path / "folder", capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        (wanted,) = json.loads(command("predict", run, "--obs", "0,0,0").out)
        assert float(done.stdout.strip("[]\n ")) == pytest.approx(wanted, abs=1e-5)

    def test_measured_scores_are_in_the_metadata(self, command: Any, data_file: Path) -> None:
        settings = ("total_timesteps=20", "eval_interval=10", "evaluation.episodes=2", f"dataset={data_file}")
        words = [word for setting in settings for word in ("--set", setting)]
        assert command("train", "-c", "bc/pendulum", "--name", "a", *words, "--quiet").code == 0
        command("push", "a", "--repo", "me/swing", "--which", "best", "--dry-run", "-o", "folder")
        page = Path("folder/README.md").read_text()
        (entry,) = yaml_dialect.read(page.split("---\n")[1])["model-index"]
        scores = json.loads(Path("folder/policy.onnx.json").read_text())["scores"]
        shown = f"{scores['return_mean']:.2f} +/- {scores['return_std']:.2f}"
        assert entry["results"][0]["metrics"][0]["value"] == shown
        assert "the best of 2 evaluations of the run, so this number is optimistic" in page

    def test_costs_keep_their_sign(self, command: Any, run: Path) -> None:
        command("export", run)
        card = json.loads(Path("run.onnx.json").read_text())
        how = "fitted Q evaluation: value where the data's episodes begin, raw reward"
        found = {"value": {"value": -150.0, "low": -160.0, "high": -145.0}, "how": how, "gamma": 0.9}
        card["offline_evaluation"] = estimate(10.0, -5.0, 25.0) | found
        card["dataset"]["source"] = {"source": "file", "path": "a`b.csv", "columns": {"rewards": "price [EUR]"}}
        value = "value -150.0 (-160.0 to -145.0), an improvement of 10.0 (-5 to 25.0) over the behaviour"
        assert value in " ".join(page(card, "me/swing").split())
        card["dataset"]["source"]["rewards_are"] = "costs"
        told = " ".join(page(card, "me/swing").split())
        assert "cost 150.0 (145.0 to 160.0) EUR, a saving of 10.0 (-5 to 25.0) over the behaviour" in told
        assert "costs are the negative of rewards, and lower is better" in told
        assert "`a'b.csv`" in told
        trial = {"value": None, "improvement": None, "not_trusted_because": ["so few", str(TOO_SHORT)]}
        card["offline_evaluation"] |= trial
        told = " ".join(page(card, "me/swing").split())
        assert "Not judged yet: only a trial fit was made" in told
        assert "so few" not in told

    def test_names_are_no_markdown(self, command: Any, run: Path) -> None:
        command("export", run)
        card = json.loads(Path("run.onnx.json").read_text()) | {"environment": "[x](y)<b>-v0"}
        assert r"# bc for \[x\](y)\<b\>-v0" in page(card, "me/swing").splitlines()

    def test_what_is_sent(self, command: Any, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        sent: list[Any] = []

        class Api:
            def create_repo(self, repo: str, *, private: bool, exist_ok: bool) -> None:
                sent.append((repo, private, exist_ok))

            def upload_folder(self, *, repo_id: str, folder_path: str, commit_message: str) -> None:
                sent.append((repo_id, sorted(file.name for file in Path(folder_path).iterdir())))

        monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(HfApi=Api))
        code, out, _ = command("push", run, "--repo", "me/swing", "--private")
        assert (code, out) == (0, "https://huggingface.co/me/swing\n")
        files = ["README.md", "config.yaml", "policy.onnx", "policy.onnx.json"]
        assert sent == [("me/swing", True, True), ("me/swing", files)]

    def test_without_a_network(self, mistake: Any, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        class Api:
            def create_repo(self, repo: str, **options: Any) -> None:
                raise OSError("Name or service\nnot known")

        monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(HfApi=Api))
        assert mistake("push", run, "--repo", "me/swing") == (
            "error: me/swing: could not be uploaded (Name or service not known); `hf auth login` logs you in"
        )

    def test_what_came_meanwhile_stays(
        self, command: Any, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make = exporting.make_card

        def slow(*arguments: Any) -> Any:
            Path("folder").mkdir()
            return make(*arguments)

        monkeypatch.setattr(exporting, "make_card", slow)
        code, out, err = command("push", run, "--repo", "me/swing", "--dry-run", "-o", "folder")
        assert (code, out, err) == (2, "", "error: folder: exists already; name a folder that does not\n")
        assert [path.name for path in tmp_path.rglob("*")] == ["folder"]

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["--dry-run", "-o", "folder"], "folder: cannot be written (No space left on device)"),
            (
                [],
                "me/swing: what is uploaded cannot be written into the system's temporary folder; -o FOLDER writes it"
                " elsewhere (No space left on device)",
            ),
        ],
    )
    def test_no_room(
        self, mistake: Any, run: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
    ) -> None:
        def full(self: Path, data: bytes) -> int:
            raise OSError(28, "No space left on device", str(self))

        monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(HfApi=None))
        monkeypatch.setattr(Path, "write_bytes", full)
        assert mistake("push", run, "--repo", "me/swing", *words) == f"error: {said}"

    def test_no_temporary_folder(self, mistake: Any, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def none(*_: object, **__: object) -> None:
            raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

        monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(HfApi=None))
        monkeypatch.setattr("tempfile.TemporaryDirectory", none)
        assert mistake("push", run, "--repo", "me/swing").endswith(
            "elsewhere (No usable temporary directory found in ['/tmp'])"
        )

    def test_without_the_extra(self, mistake: Any, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "huggingface_hub", None)
        said = "error: huggingface_hub: is not installed; pip install 'rl-training[hub]', or --dry-run -o FOLDER"
        assert mistake("push", run, "--repo", "me/swing") == said

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["--repo", "swing", "--dry-run", "-o", "x"], "--repo: must be user/name, got 'swing'"),
            (["--repo", "me/swing", "--dry-run"], "--dry-run: name the folder to write with -o"),
            (["--repo", "me/swing", "--dry-run", "-o", "."], ".: exists already; name a folder that does not"),
        ],
    )
    def test_mistakes(self, mistake: Any, run: Path, words: list[str], said: str) -> None:
        assert said in mistake("push", run, *words)
