"""Exported policies: the same actions from another program, for every head and every transform."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from rl_training import BC, algorithms
from rl_training.algorithms.base import Learner
from rl_training.algorithms.bc import BC as BCLearner  # noqa: N811
from rl_training.algorithms.bc import BCModel
from rl_training.data.formats import atomic
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.transforms import Transforms
from rl_training.errors import CheckpointError, ConfigError
from rl_training.experiment.manager import load_policy
from rl_training.experiment.shipping import exporting, onnx_graph, torch_program
from rl_training.experiment.shipping.exporting import export_policy
from rl_training.experiment.shipping.hub import page
from rl_training.experiment.shipping.network import read_network, require_samples
from rl_training.models import DeterministicPolicy
from rl_training.models.layers import LayerNormPlacement, MLPSpec, StackedMLP
from rl_training.runtime.acting import Actor
from rl_training.runtime.trainer import train
from small_runs import files_under, small_config

OBS, ACT = 5, 3
ROWS = 4096
LOW, HIGH = (-2.0, 0.5, -100.0), (1.0, 0.75, 30.0)  # neither symmetric nor of one size
RAW = Transforms(None, None, 1.0, 0.0, LOW, HIGH)
# Entry 1 has a mean far larger than its deviation, where one float32 would lose the digits that matter.
STANDARDISED = Transforms((0.0, 1e6, -3.0, 1e-3, 70.0), (1.0, 0.02, 0.5, 1e-3, 900.0), 1.0, 0.0, LOW, HIGH)
TRANSFORMS = {"raw": RAW, "standardised": STANDARDISED}
WIDE = {"actor_hidden": (64, 64)}
HEADS: dict[str, tuple[str, dict[str, Any]]] = {
    **{algo: (algo, {}) for algo in algorithms.find()},
    "bc-gaussian": ("bc", {"deterministic_policy": False}),
    "iql-deterministic": ("iql", {"deterministic_policy": True}),
    "iql-dropout": ("iql", {"actor_dropout": 0.5}),
    "crr-critic-weighted": ("crr", {"cwp_samples": 4}),
    "one-hidden-layer": ("sac", {"actor_hidden": (7,)}),
}

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (extra `dev` has it)")


def answers(model: bytes, **inputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """What onnxruntime makes of a file."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (action,) = session.run(["action"], inputs)
    return np.asarray(action)


def make_learner(algo: str, knobs: Mapping[str, Any], learner_type: type[Learner] | None = None) -> Learner:
    """Two members with weights large enough for actions over the whole range."""
    learner = (learner_type or algorithms.load(algo))(OBS, ACT, seeds=(3, 8), **{**WIDE, **knobs})
    policy = learner.policy
    assert isinstance(policy, StackedMLP)
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, view in policy.tensors().items():
            view.copy_(torch.randn(view.shape, generator=draw) * (0.4 if "weight" in name else 0.3))
    return learner


def observations(transforms: Transforms) -> npt.NDArray[np.float32]:
    """Like the data, and far from them."""
    draw = np.random.default_rng(1)
    unit = draw.standard_normal((ROWS, OBS))
    unit[: ROWS // 8] *= 10.0
    if transforms.obs_mean is not None and transforms.obs_std is not None:
        unit = unit * transforms.obs_std + transforms.obs_mean
    return unit.astype(np.float32)


def extremes() -> npt.NDArray[np.float32]:
    """Values a sensor may send when it fails, all finite."""
    sizes = (0.0, 1e-45, 1e-30, 1.0, 1e4, 1e8, 1e20, 1e30)
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * OBS)).reshape(OBS, -1).T
    draw = np.random.default_rng(2).uniform(0.5, 1.0, (len(sizes) * len(signs), OBS))
    return (np.concatenate([signs * size for size in sizes]) * draw).astype(np.float32)


def expected(learner: Learner, transforms: Transforms, obs: npt.NDArray[Any], noise: Any = None) -> npt.NDArray[Any]:
    drawn = None if noise is None else {"action": torch.tensor(noise).expand(2, -1, -1)}
    return Actor(learner, transforms)(np.broadcast_to(obs, (2, *obs.shape)), drawn)[1]


def worst(actions: npt.NDArray[Any], others: npt.NDArray[Any]) -> float:
    """The largest difference over an action's size, at least 1."""
    size = np.maximum(1.0, np.maximum(np.abs(LOW), np.abs(HIGH)))
    return float(np.max(np.abs(actions.astype(np.float64) - others) / size))


def onnx_file(learner: Learner, transforms: Transforms, *, stochastic: bool = False, batch: int | None = None) -> bytes:
    network = read_network(learner, transforms, 1)
    return onnx_graph.build(network, stochastic=stochastic, batch=batch, facts={})


class TestSameActions:
    @pytest.mark.parametrize("transforms", TRANSFORMS.values(), ids=TRANSFORMS)
    @pytest.mark.parametrize("head", HEADS)
    def test_of_every_algorithm(self, head: str, transforms: Transforms) -> None:
        learner = make_learner(*HEADS[head])
        model = onnx_file(learner, transforms)
        obs = observations(transforms)
        actions = answers(model, obs=obs)
        assert worst(actions, expected(learner, transforms, obs)) <= 1e-5
        assert np.all(actions.std(0) > 0.05 * (np.asarray(HIGH) - LOW))  # not all at one end
        assert np.all((actions >= np.float32(LOW)) & (actions <= np.float32(HIGH)))

    @pytest.mark.parametrize("transforms", TRANSFORMS.values(), ids=TRANSFORMS)
    @pytest.mark.parametrize("head", ["td3", "sac", "iql"])
    def test_far_from_the_data(self, head: str, transforms: Transforms) -> None:
        learner = make_learner(*HEADS[head])
        obs = extremes()
        actions = answers(onnx_file(learner, transforms), obs=obs)
        assert np.isfinite(actions).all()
        assert worst(actions, expected(learner, transforms, obs)) <= 1e-5

    @pytest.mark.parametrize("head", ["td3", "sac", "iql"])
    @pytest.mark.parametrize(("size", "rounded"), [(10.0, 1e-5), (1e3, 1e-3), (1e5, 0.1)])
    def test_where_rounding_grows(self, head: str, size: float, rounded: float) -> None:
        """Weights as they are at first, whose actions are at no bound."""
        algo, knobs = HEADS[head]
        learner = algorithms.load(algo)(OBS, ACT, seeds=(3, 8), **knobs)
        obs = (size * np.random.default_rng(5).standard_normal((ROWS, OBS))).astype(np.float32)
        actions, wanted = answers(onnx_file(learner, RAW), obs=obs), expected(learner, RAW, obs)
        assert worst(actions, wanted) <= rounded
        assert np.all((actions >= np.float32(LOW)) & (actions <= np.float32(HIGH)))

    @pytest.mark.parametrize("placement", ["pre", "post"])
    def test_with_layer_norm(self, placement: LayerNormPlacement) -> None:
        class Normalised(DeterministicPolicy):
            def __init__(self, seeds: tuple[int, ...]) -> None:
                StackedMLP.__init__(self, MLPSpec((OBS, 32, 32, ACT), layer_norm=placement), seeds, "actor")

        class Normalising(BCLearner):
            def build(self) -> BCModel:
                return BCModel(Normalised(self.seeds))

        learner = make_learner("bc", {}, Normalising)
        obs = observations(STANDARDISED)
        wanted = expected(learner, STANDARDISED, obs)
        assert worst(answers(onnx_file(learner, STANDARDISED), obs=obs), wanted) <= 1e-5
        program = torch_program.PolicyProgram(read_network(learner, STANDARDISED, 1))
        assert worst(program(torch.tensor(obs)).numpy(), wanted) <= 1e-5

    @pytest.mark.parametrize("head", ["sac", "cql", "crr", "iql", "awac", "awr", "bc-gaussian"])
    def test_of_samples(self, head: str) -> None:
        learner = make_learner(*HEADS[head])
        obs = observations(STANDARDISED)
        noise = np.random.default_rng(3).standard_normal((ROWS, ACT)).astype(np.float32)
        require_samples(learner, read_network(learner, STANDARDISED, 1))
        wanted = expected(learner, STANDARDISED, obs, noise)
        model = onnx_file(learner, STANDARDISED, stochastic=True)
        assert worst(answers(model, obs=obs, noise=noise), wanted) <= 1e-5
        assert worst(wanted, expected(learner, STANDARDISED, obs)) > 0.1
        program = torch_program.PolicyProgram(read_network(learner, STANDARDISED, 1))
        assert worst(program(torch.tensor(obs), torch.tensor(noise)).numpy(), wanted) <= 1e-5

    @pytest.mark.parametrize("transforms", TRANSFORMS.values(), ids=TRANSFORMS)
    def test_what_is_not_finite_is_not_hidden(self, transforms: Transforms) -> None:
        learner = make_learner("td3_bc", {})
        obs = observations(transforms)[:64]
        sound = answers(onnx_file(learner, transforms), obs=obs)
        obs[3, 0], obs[5, 4], obs[60, 1] = np.nan, np.inf, -np.inf
        network = read_network(learner, transforms, 1)
        for actions in (
            answers(onnx_file(learner, transforms), obs=obs),
            torch_program.PolicyProgram(network)(torch.tensor(obs)).numpy(),
        ):
            bad = [3, 5, 60]
            assert np.isnan(actions[bad]).all()
            assert np.allclose(np.delete(actions, bad, 0), np.delete(sound, bad, 0), atol=1e-4)

    def test_any_number_of_rows_or_one_number(self) -> None:
        learner = make_learner("sac", {})
        obs = observations(RAW)
        free, fixed = onnx_file(learner, RAW), onnx_file(learner, RAW, batch=4)
        wanted = expected(learner, RAW, obs)
        for rows in (1, 2, 17):
            assert worst(answers(free, obs=obs[:rows]), wanted[:rows]) <= 1e-5
        assert worst(answers(fixed, obs=obs[:4]), wanted[:4]) <= 1e-5
        with pytest.raises(Exception, match="Got: 3 Expected: 4"):
            answers(fixed, obs=obs[:3])
        assert answers(free, obs=obs[:0]).shape == (0, ACT)


class TestRefusals:
    def test_samples_of_a_deterministic_policy(self) -> None:
        learner = make_learner("td3", {})
        with pytest.raises(ConfigError, match="this TD3 policy is deterministic; leave the option out"):
            require_samples(learner, read_network(learner, RAW, 0))

    def test_samples_chosen_by_critics(self) -> None:
        learner = make_learner(*HEADS["crr-critic-weighted"])
        with pytest.raises(ConfigError, match="CRR chooses among samples by its critics here; only its mode"):
            require_samples(learner, read_network(learner, RAW, 0))

    def test_a_way_of_acting_that_is_not_known(self) -> None:
        class Odd(BCLearner):
            def act(self, obs: Any, noise: Any = None) -> Any:
                return -super().act(obs, noise)

        class Foreign(BCLearner):
            def build(self) -> BCModel:
                model = super().build()
                model.actor = StackedMLP(MLPSpec((OBS, ACT)), self.seeds, "actor")  # type: ignore[assignment]
                return model

        with pytest.raises(ConfigError, match="Odd acts in a way of its own"):
            read_network(make_learner("bc", {}, Odd), RAW, 0)
        with pytest.raises(ConfigError, match="a policy of type StackedMLP is not known"):
            read_network(make_learner("bc", {}, Foreign), RAW, 0)

    def test_a_file_that_would_differ_is_not_written(
        self, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answer = onnx_graph.run
        monkeypatch.setattr(onnx_graph, "run", lambda *given: [actions + 0.01 for actions in answer(*given)])
        with pytest.raises(ConfigError, match=r"would differ from predict's by 0\.0025 of their range"):
            export_policy(load_policy(run), tmp_path / "p.onnx")
        assert files_under(tmp_path) == {}


@pytest.fixture(scope="module")
def run(data_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two seeds with normalised observations."""
    transforms = {"normalise_observations": True}
    folder = tmp_path_factory.mktemp("runs")
    return train(small_config(data_file, folder, seed=[4, 2], checkpoint_interval=10, transforms=transforms)).run.path


# Imports of the two are errors, as on a machine that has neither.
BLOCKED = """
import sys
for name in {names!r}:
    sys.modules[name] = None
exec(compile(open({script!r}).read(), {script!r}, "exec"))
"""


def run_without(script: Path, folder: Path, *names: str, arguments: tuple[str, ...] = ()) -> str:
    """Run a script where some packages cannot be imported."""
    code = BLOCKED.format(names=names, script=str(script))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class TestFiles:
    def test_a_card_says_what_the_file_is(self, run: Path, tmp_path: Path) -> None:
        exported = export_policy(load_policy(run, 10), tmp_path / "p.onnx", seed=2)
        card = json.loads(exported.card_path.read_text())
        assert card == exported.card
        assert exported.card_path == tmp_path / "p.onnx.json"
        assert card["file"]["sha256"] == hashlib.sha256(exported.path.read_bytes()).hexdigest()
        assert (card["policy"]["algo"], card["policy"]["seed"], card["policy"]["update"]) == ("bc", 2, 10)
        assert card["dataset"]["fingerprint"] == json.loads((run / "run.json").read_text())["dataset"]["fingerprint"]
        assert card["dataset"]["source"]["path"] == "pendulum.npz"
        assert (card["inputs"][0]["shape"], card["outputs"][0]["shape"]) == (["batch", 3], ["batch", 1])
        assert (card["outputs"][0]["low"], card["outputs"][0]["high"]) == ([-2.0], [2.0])
        assert card["scores"] is None  # no environment: nobody has measured it
        assert 0.0 <= card["check"]["largest_difference_over_range"] < 1e-6
        assert str(run.parent) not in exported.card_path.read_text()
        assert card["reproduce"]["commands"][-1].endswith("export run --which 10 --seed 2 --format onnx -o p.onnx")

    def test_the_same_bytes_each_time(self, run: Path, tmp_path: Path) -> None:
        first, second = (export_policy(load_policy(run), tmp_path / n / "p.onnx") for n in "ab")
        assert files_under(first.path.parent) == files_under(second.path.parent)

    def test_a_checkpoint_of_a_run_knows_its_run(self, run: Path, tmp_path: Path) -> None:
        by_run = export_policy(load_policy(run), tmp_path / "a" / "p.onnx")
        by_checkpoint = export_policy(load_policy(run / "checkpoints" / "step-20"), tmp_path / "b" / "p.onnx")
        assert by_run.card == by_checkpoint.card

    def test_the_managed_class_writes_the_same(self, run: Path, tmp_path: Path) -> None:
        path = BC.load(run).export(tmp_path / "a" / "p.onnx", seed=2)
        export_policy(load_policy(run), tmp_path / "b" / "p.onnx", seed=2)
        assert files_under(path.parent) == files_under(tmp_path / "b")

    def test_a_policy_trained_from_arrays(self, dataset: TransitionDataset, tmp_path: Path) -> None:
        arrays = {name: getattr(dataset, name) for name in ("obs", "actions", "rewards", "next_obs")}
        ends = {"terminations": dataset.terminations, "truncations": dataset.truncations}
        model = BC(dataset={**arrays, **ends}, runs_dir=tmp_path / "runs", name="a", total_timesteps=2, batch_size=8)
        card = json.loads((model.learn().export(tmp_path / "p.onnx").with_name("p.onnx.json")).read_text())
        assert card["dataset"]["source"] is None
        assert card["dataset"]["fingerprint"]
        assert card["reproduce"]["commands"] == ["rl-training export a --which 2 --seed 0 --format onnx -o p.onnx"]
        model.save(tmp_path / "runs" / "a" / "mine")
        saved = BC.load(tmp_path / "runs" / "a" / "mine").export(tmp_path / "saved.onnx")
        assert saved.read_bytes() == (tmp_path / "p.onnx").read_bytes()
        assert "arrays in memory" in page(card, "me/x")

    def test_a_policy_that_collected_its_own_data(self, tmp_path: Path) -> None:
        changes = {"env_id": "Pendulum-v1", "evaluation": {"episodes": 1}, "total_timesteps": 4}
        path = train(small_config(None, tmp_path / "runs", "sac", **changes)).run.path
        card = export_policy(load_policy(path), tmp_path / "p.onnx", deterministic=False).card
        assert card["dataset"] is None
        assert card["policy"]["step_unit"] == "steps"
        assert [entry["name"] for entry in card["inputs"]] == ["obs", "noise"]
        assert card["reproduce"]["commands"][1].endswith("--format onnx --stochastic -o p.onnx")
        assert "it collected its own experience" in page(card, "me/x")

    def test_a_score_that_is_no_number(self, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rl_training.experiment.shipping.card.scores", lambda *_: {"return_mean": float("nan")})
        assert export_policy(load_policy(run), tmp_path / "p.onnx").card["scores"] == {"return_mean": None}

    def test_a_torch_program_needs_torch_alone(self, run: Path, tmp_path: Path) -> None:
        policy = load_policy(run)
        path = export_policy(policy, tmp_path / "p.pt2").path
        with zipfile.ZipFile(path) as archive:
            inside = {name: archive.read(name) for name in archive.namelist()}
        assert not [name for name, data in inside.items() if data.startswith((b"\x80", b"PK")) and "weight" not in name]
        assert b'use_pickle": true' not in inside["archive/data/weights/model_weights_config.json"]
        assert str(Path(torch_program.__file__).parent).encode() not in path.read_bytes()
        obs = np.random.default_rng(0).standard_normal((500, 3)).astype(np.float32)
        np.save(tmp_path / "obs.npy", obs)
        script = tmp_path / "use.py"
        script.write_text(
            "import numpy as np, torch\n"
            "policy = torch.export.load('p.pt2').module()\n"
            "obs = torch.tensor(np.load('obs.npy'))\n"
            "assert policy(obs[:1]).shape == (1, 1)\n"
            "np.save('actions.npy', policy(obs).numpy())\n"
        )
        run_without(script, tmp_path, "rl_training")
        assert np.abs(np.load(tmp_path / "actions.npy") - policy.predict(obs)).max() <= 1e-5

    def test_the_example_needs_neither_torch_nor_this_package(self, run: Path, tmp_path: Path) -> None:
        policy = load_policy(run)
        export_policy(policy, tmp_path / "p.onnx")
        example = Path(__file__).resolve().parents[2] / "examples" / "onnx_policy.py"
        code = [line for line in example.read_text().splitlines() if line and not line.startswith('"""')]
        assert len(code) <= 10
        said = run_without(example, tmp_path, "torch", "rl_training", arguments=("p.onnx", "0.5", "-0.5", "2"))
        assert json.loads(said) == pytest.approx(policy.predict([0.5, -0.5, 2.0]).tolist(), abs=1e-5)

    def test_the_example_without_numbers_says_how_it_is_called(self) -> None:
        example = Path(__file__).resolve().parents[2] / "examples" / "onnx_policy.py"
        pytest.importorskip("onnxruntime")
        called = subprocess.run([sys.executable, example, "p.onnx"], capture_output=True, text=True, check=False)
        assert called.returncode == 2
        assert called.stderr == "usage: python onnx_policy.py policy.onnx NUMBER NUMBER …\n"

    def test_scores_are_the_evaluation_of_that_checkpoint(self, tmp_path: Path, data_file: Path) -> None:
        changes = {"env_id": "Pendulum-v1", "eval_interval": 10, "evaluation": {"episodes": 2}, "seed": [0, 1]}
        path = train(small_config(data_file, tmp_path / "runs", **changes)).run.path
        record = json.loads((path / "evaluations.jsonl").read_text().splitlines()[0])
        scores = export_policy(load_policy(path, 10), tmp_path / "p.onnx", seed=1).card["scores"]
        assert scores["return_mean"] == record["return_mean"][1]
        assert scores["how"]["episodes"] == 2
        assert scores["how"]["evaluations_in_the_run"] == 2
        with (path / "evaluations.jsonl").open("a") as file:
            file.write('{"step": 20}\n')
        with pytest.raises(CheckpointError, match=r"evaluations\.jsonl: line 3 is damaged"):
            export_policy(load_policy(path), tmp_path / "q.onnx")
        assert not (tmp_path / "q.onnx").exists()


def test_nowhere_for_temporary_files(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch wants some, ONNX none."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["nowhere"])
    policy = load_policy(run)
    with pytest.raises(ConfigError) as caught:
        export_policy(policy, tmp_path / "p.pt2")
    told = "no folder for temporary files can be written to; make room, or name another: TMPDIR=FOLDER"
    assert str(caught.value) == told
    assert export_policy(policy, tmp_path / "p.onnx").path.is_file()
    assert not (tmp_path / "p.pt2").exists()


def test_without_onnx(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ConfigError, match=r"onnx: is not installed; pip install 'rl-training\[export\]', or --format"):
        export_policy(load_policy(run), tmp_path / "p.onnx")
    assert files_under(tmp_path) == {}


@pytest.mark.parametrize("name", ["p.pt2", "p.pt2.json"])
@pytest.mark.parametrize("there", [False, True])
def test_a_pair_that_cannot_be_replaced_stays(
    name: str, there: bool, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the policy, or its card, cannot have its name: both as they were, or neither."""
    policy = load_policy(run)
    if there:
        export_policy(policy, tmp_path / "p.pt2", seed=policy.checkpoint.config.seeds[-1])
    before = files_under(tmp_path)

    def full(temporary: Path, target: Path, *, replace: bool) -> None:
        if target.name == name:
            raise OSError(28, "No space left on device")
        atomic.put(temporary, target, replace=replace)

    monkeypatch.setattr(exporting, "put", full)
    with pytest.raises(ConfigError, match=r"p\.pt2: cannot be written \(No space left on device\)"):
        export_policy(policy, tmp_path / "p.pt2", force=True)
    assert files_under(tmp_path) == before
