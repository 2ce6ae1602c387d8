"""Named settings: what they say is what ALGORITHMS.md says, and what the user says comes before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rl_training import algorithms
from rl_training.algorithms.base import Learner
from rl_training.errors import ConfigError
from rl_training.experiment.config import read_config, to_yaml
from rl_training.models import Initialiser
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.presets import PRESETS, merge, presets

ALGOS = list(algorithms.find())
EVERY = [(algo, name) for algo in ALGOS for name in presets(algo)]


def parsed(algo: str, preset: str, **values: Any) -> TrainConfig:
    """With a budget where the preset has none."""
    budget = {} if "total_timesteps" in presets(algo)[preset]["config"] else {"total_timesteps": 10}
    return TrainConfig.parse({"algo": algo, "preset": preset, **budget, **values})


def learner(algo: str, preset: str, obs_dim: int = 5, act_dim: int = 6) -> Learner:
    return algorithms.load(algo)(obs_dim, act_dim, **parsed(algo, preset).algo_kwargs)


# Every preset ---------------------------------------------------------------------------------------------------------


def test_every_file_belongs_to_an_algorithm() -> None:
    assert {file.stem for file in PRESETS.glob("*.yaml")} <= set(ALGOS)
    assert len(EVERY) > 50


@pytest.mark.parametrize(("algo", "name"), EVERY)
def test_every_preset_names_its_source_and_is_used_in_full(algo: str, name: str) -> None:
    entry = presets(algo)[name]
    assert entry.keys() == {"source", "config"}
    assert len(entry["source"].split()) >= 2
    plain = parsed(algo, name).to_plain()

    def assert_within(part: dict[str, Any], whole: dict[str, Any]) -> None:
        for key, value in part.items():
            if isinstance(value, dict):
                assert_within(value, whole[key])
            else:
                assert whole[key] == value, key

    assert_within(entry["config"], plain)


@pytest.mark.parametrize(("algo", "name"), EVERY)
def test_every_preset_survives_being_written_and_read(algo: str, name: str, tmp_path: Path) -> None:
    config = parsed(algo, name, env_id="Pendulum-v1", algo_kwargs={"batch_size": 7})
    (tmp_path / "config.yaml").write_text(to_yaml(config))
    again = read_config(str(tmp_path / "config.yaml"))
    assert again == config
    assert (again.preset, again.algo_kwargs["batch_size"]) == (name, 7)


# Who wins -------------------------------------------------------------------------------------------------------------


def test_what_the_user_says_wins_key_by_key() -> None:
    config = TrainConfig.parse(
        {
            "algo": "rlpd",
            "preset": "antmaze",
            "total_timesteps": 77,
            "evaluation": {"seed": 3},
            "transforms": {"reward_scale": 2.0},
            "algo_kwargs": {"n_critics": 4, "critic_hidden": [32]},
        }
    )
    assert config.total_timesteps == 77
    assert (config.evaluation.episodes, config.evaluation.seed) == (100, 3)
    assert (config.transforms.reward_shift, config.transforms.reward_scale) == (-1.0, 2.0)
    knobs = config.algo_kwargs
    assert (knobs["n_critics"], knobs["critic_hidden"], knobs["actor_hidden"]) == (4, [32], [256, 256, 256])
    assert (knobs["target_subset"], knobs["gradient_updates_per_step"]) == (1, 20)


def test_a_value_can_be_taken_back() -> None:
    config = parsed("awr", "paper", algo_kwargs={"td_lambda": None, "fixed_std": None})
    assert (config.algo_kwargs["td_lambda"], config.algo_kwargs["fixed_std"]) == (None, None)
    assert config.algo_kwargs["optimiser"] == "momentum"


def test_presets_are_not_changed_by_their_use() -> None:
    before = to_yaml(parsed("iql", "d4rl-antmaze"))
    parsed("iql", "d4rl-antmaze", transforms={"reward_shift": 9.0}, algo_kwargs={"beta": 1.0})
    assert to_yaml(parsed("iql", "d4rl-antmaze")) == before


def test_merge_by_hand() -> None:
    below, above = {"a": {"x": 1, "y": {"p": 1}}, "b": [1, 2], "c": 3}, {"a": {"y": {"q": 2}}, "b": [9], "d": None}
    assert merge(below, above) == {"a": {"x": 1, "y": {"p": 1, "q": 2}}, "b": [9], "c": 3, "d": None}
    assert below == {"a": {"x": 1, "y": {"p": 1}}, "b": [1, 2], "c": 3}


# Mistakes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"algo": "rlpd", "preset": "papper"}, "preset: rlpd has no preset 'papper'; did you mean 'paper'?"),
        (
            {"algo": "iql", "preset": "x"},
            "preset: iql has no preset 'x'; choose from corl-adroit, d4rl-adroit, d4rl-antmaze, d4rl-mujoco, layernorm",
        ),
        (
            {"algo": "bc", "preset": "layernorm"},
            "preset: bc has no preset 'layernorm'; choose from best-10-percent, d4rl; null goes without",
        ),
        ({"algo": "sac", "preset": "paper"}, "preset: sac has no preset 'paper'; sac has none"),
        ({"algo": "rlpdd", "preset": "paper"}, "algo: no algorithm 'rlpdd'; did you mean 'rlpd'?"),
        (
            {"algo": "rebrac", "preset": "hopper-mediun"},
            "preset: rebrac has no preset 'hopper-mediun'; did you mean 'hopper-medium'?",
        ),
        (
            {"algo": "awr", "preset": "paper", "algo_kwargs": {"beta": 0}, "total_timesteps": 3},
            "algo_kwargs.beta: must be above 0, got 0",
        ),
        ({"algo": "awr", "preset": "paper"}, "total_timesteps (or n_epochs) is required"),
    ],
)
def test_mistakes_are_one_line(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        TrainConfig.parse(values)
    assert str(refusal.value) == message


# What ALGORITHMS.md says ----------------------------------------------------------------------------------------------

RLPD_COMMON = {
    "n_critics": 10,
    "layer_norm": "pre",
    "gradient_updates_per_step": 20,
    "train_frequency": 1,
    "actor_lr": 3e-4,
    "critic_lr": 3e-4,
    "alpha_lr": 3e-4,
    "batch_size": 256,
    "gamma": 0.99,
    "tau": 0.005,
    "alpha": 1.0,
    "learn_alpha": True,
    "init": "xavier",
    "learning_starts": 5_000,
    "offline_batch_ratio": 0.5,
    "offline_pretrain_updates": 0,
    "actor_reduce": "mean",
    "target_entropy": None,
    "target_entropy_scale": 0.5,
    "alpha_loss": "alpha",
    "target_reduce": "min",
}
RLPD = {
    "paper": (250_000, {"target_subset": 2, "backup_entropy": True}, 2, 0.0),
    "antmaze": (300_000, {"target_subset": 1, "backup_entropy": False}, 3, -1.0),
    "adroit": (1_000_000, {"target_subset": 2, "backup_entropy": False}, 3, 0.0),
}


@pytest.mark.parametrize("name", RLPD)
def test_rlpd(name: str) -> None:
    """Section 2.10: the common settings, and table 2 of the paper."""
    steps, own, depth, shift = RLPD[name]
    config = parsed("rlpd", name)
    expected = {**RLPD_COMMON, **own, "actor_hidden": [256] * depth, "critic_hidden": [256] * depth}
    assert {key: config.algo_kwargs[key] for key in expected} == expected
    assert config.total_timesteps == steps
    assert config.algo_kwargs["buffer_capacity"] >= steps  # nothing is ever evicted
    assert (config.transforms.reward_shift, config.transforms.reward_scale) == (shift, 1.0)
    assert not config.transforms.normalise_observations
    built = learner("rlpd", name)
    assert built.period == 20
    assert built.model.actor.log_std_bounds == (-20.0, 2.0)
    assert built.model.actor.spec.layer_norm == "none"  # the critics alone are normalised
    assert built.model.actor.spec.init == built.model.critics.spec.init == Initialiser("xavier")


@pytest.mark.parametrize(
    ("name", "expectile", "beta", "dropout", "transforms"),
    [
        ("d4rl-mujoco", 0.7, 3.0, 0.0, {"reward_range_scaling": True}),
        ("d4rl-antmaze", 0.9, 10.0, 0.0, {"reward_shift": -1.0}),
        ("d4rl-adroit", 0.7, 0.5, 0.1, {}),
        ("corl-adroit", 0.8, 3.0, 0.1, {"normalise_observations": True}),
    ],
)
def test_iql(name: str, expectile: float, beta: float, dropout: float, transforms: dict[str, Any]) -> None:
    """Section 2.6."""
    config = parsed("iql", name)
    own = {"expectile": expectile, "beta": beta, "actor_dropout": dropout, "max_weight": 100.0}
    rates = dict.fromkeys(("actor_lr", "critic_lr", "value_lr"), 3e-4)
    nets = {f"{network}_hidden": [256, 256] for network in ("actor", "critic", "value")}
    common = {"batch_size": 256, "gamma": 0.99, "tau": 0.005, "n_critics": 2, "deterministic_policy": False}
    expected = {**own, **rates, **nets, **common}
    assert {key: config.algo_kwargs[key] for key in expected} == expected
    assert config.algo_kwargs["lr_schedule"] == {"actor": {"kind": "cosine", "warmup": 0, "final": 0.0}}
    defaults = {"normalise_observations": False, "reward_shift": 0.0, "reward_range_scaling": False}
    wanted = {**defaults, **transforms}
    assert {key: getattr(config.transforms, key) for key in wanted} == wanted
    assert config.total_timesteps == 1_000_000
    assert config.evaluation.episodes == (100 if name == "d4rl-antmaze" else 10)


CQL_ROWS = {
    # name: (w, τ_gap, actor lr, actor depth, critic depth, max-backup, c_min, (scale, shift), normalised)
    "d4rl-mujoco": (10.0, None, 3e-5, 3, 3, False, None, (1.0, 0.0), True),
    "d4rl-adroit": (1.0, None, 1e-4, 3, 3, False, None, (1.0, 0.0), True),
    "d4rl-antmaze": (5.0, 0.8, 1e-4, 3, 5, True, -200.0, (10.0, -5.0), False),
    "calql-antmaze": (5.0, 0.8, 1e-4, 2, 4, True, None, (10.0, -5.0), False),
    "official": (5.0, None, 1e-4, 3, 3, False, None, (1.0, 0.0), False),
}


@pytest.mark.parametrize("name", CQL_ROWS)
def test_cql(name: str) -> None:
    """Section 2.7's table."""
    weight, gap, actor_lr, actor, critic, backup, least, reward, normalised = CQL_ROWS[name]
    config = parsed("cql", name)
    expected = {
        "cql_alpha": weight,
        "target_gap": gap,
        "actor_lr": actor_lr,
        "critic_lr": 3e-4,
        "actor_hidden": [256] * actor,
        "critic_hidden": [256] * critic,
        "max_target_backup": backup,
        "gap_min": least,
        "num_cql_samples": 10,
        "temperature": 1.0,
        "backup_entropy": False,
        "bc_warmup_updates": 40_000 if name == "official" else 0,
        "batch_size": 256,
        "gamma": 0.99,
        "tau": 0.005,
    }
    assert {key: config.algo_kwargs[key] for key in expected} == expected
    transforms = config.transforms
    assert (transforms.reward_scale, transforms.reward_shift) == reward
    assert transforms.normalise_observations is normalised
    assert ("lagrange" in learner("cql", name).optimisers) is (gap is not None)


@pytest.mark.parametrize(
    ("name", "actor_lr", "std", "critic_updates"),
    [
        ("paper", 5e-5, 0.2, 500),
        ("halfcheetah", 5e-5, 0.4, 200),
        ("hopper", 1e-4, 0.4, 200),
        ("walker2d", 2.5e-5, 0.4, 200),
        ("ant", 5e-5, 0.2, 200),
        ("humanoid", 1e-5, 0.4, 200),
    ],
)
def test_awr(name: str, actor_lr: float, std: float, critic_updates: int) -> None:
    """Section 2.11's table and the line beneath it."""
    expected = {
        "actor_lr": actor_lr,
        "fixed_std": std,
        "critic_updates": critic_updates,
        "actor_updates": 1_000,
        "value_lr": 1e-2,
        "optimiser": "momentum",
        "batch_size": 256,
        "actor_hidden": [128, 64],
        "value_hidden": [128, 64],
        "gamma": 0.99,
        "td_lambda": 0.95,
        "beta": 1.0,
        "max_weight": 20.0,
        "normalise_advantages": True,
    }
    knobs = parsed("awr", name).algo_kwargs
    assert {key: knobs[key] for key in expected} == expected
    assert knobs["value_scale"] == pytest.approx(1 / (1 - 0.99), rel=1e-9)
    assert learner("awr", name).period == critic_updates + 1_000


@pytest.mark.parametrize("name", ["paper", "halfcheetah", "hopper", "walker2d", "ant", "humanoid"])
def test_awr_normalises_observations_and_says_how_it_differs(name: str) -> None:
    """The authors' normaliser runs along with the samples; on a fixed dataset it ends at the dataset's statistics."""
    assert parsed("awr", name).transforms.normalise_observations
    source = presets("awr")[name]["source"]
    assert "not the newest 50,000 samples" in source
    assert "statistics in place of running ones" in source


AWAC_ROWS = {
    # name: (λ, weights, batch, actor depth, critic depth, weight decay, normalised, reward shift, steps)
    "paper": (2.0, "softmax", 1024, 4, 2, 1e-4, False, 0.0, 50_000),
    "hand": (0.5, "softmax", 1024, 2, 2, 1e-4, False, 0.0, 25_000),
    "d4rl-mujoco": (0.3333, "exp", 256, 3, 3, 0.0, True, 0.0, 1_000_000),
    "d4rl-adroit": (0.1, "exp", 256, 3, 3, 0.0, True, 0.0, 1_000_000),
    "d4rl-antmaze": (0.1, "exp", 256, 3, 3, 0.0, True, -1.0, 1_000_000),
}


@pytest.mark.parametrize("name", AWAC_ROWS)
def test_awac(name: str) -> None:
    """Section 2.5's table; what is left out is said."""
    beta, weights, batch, actor, critic, decay, normalised, shift, steps = AWAC_ROWS[name]
    hand = name == "hand"
    config = parsed("awac", name)
    expected = {
        "beta": beta,
        "weight_type": weights,
        "batch_size": batch,
        "actor_hidden": [256] * actor,
        "critic_hidden": [256] * critic,
        "weight_decay": decay,
        "max_advantage": 0.5 if hand else None,
        "baseline": "mean" if hand else "sample",
        "critic_max": 0.0 if hand else None,
        "bootstrap_terminations": hand,
        "gamma": 0.99,
        "tau": 0.005,
    }
    assert {key: config.algo_kwargs[key] for key in expected} == expected
    assert (config.transforms.normalise_observations, config.transforms.reward_shift) == (normalised, shift)
    assert config.total_timesteps == steps
    source = presets("awac")[name]["source"]
    assert ("its mean has no tanh" in source) if name.startswith("d4rl") else ("offline part" in source)


def test_awr_adam() -> None:
    """The paper's mathematics, Adam at 3e-4, networks of 2×256."""
    knobs = parsed("awr", "awr-adam").algo_kwargs
    assert (knobs["optimiser"], knobs["actor_lr"], knobs["value_lr"]) == ("adam", 3e-4, 3e-4)
    assert (knobs["actor_hidden"], knobs["value_hidden"]) == ([256, 256], [256, 256])
    assert (knobs["td_lambda"], knobs["value_scale"]) == (0.95, 100.0)


@pytest.mark.parametrize(
    ("name", "actor", "critic"),
    [
        ("halfcheetah-random", 0.001, 0.1),
        ("halfcheetah-medium-replay", 0.01, 0.001),
        ("halfcheetah-medium-expert", 0.01, 0.1),
        ("hopper-medium", 0.01, 0.001),
        ("hopper-medium-released", 0.01, 0.01),
        ("hopper-expert", 0.1, 0.001),
        ("hopper-expert-released", 0.1, 0.1),
        ("hopper-medium-replay", 0.05, 0.5),
        ("walker2d-random", 0.01, 0.0),
        ("walker2d-expert", 0.01, 0.5),
        ("antmaze-umaze", 0.003, 0.002),
        ("antmaze-medium-diverse", 0.001, 0.0),
        ("antmaze-large-play", 0.002, 0.001),
        ("pen-cloned", 0.05, 0.5),
        ("door-expert", 0.05, 0.01),
        ("hammer-human", 0.01, 0.5),
        ("relocate-human", 0.1, 0.01),
        ("maze2d-large", 0.003, 0.001),
    ],
)
def test_rebrac(name: str, actor: float, critic: float) -> None:
    """Section 2.9: the weights by dataset, the rest by domain."""
    config = parsed("rebrac", name)
    knobs = config.algo_kwargs
    assert (knobs["actor_bc_weight"], knobs["critic_bc_weight"]) == (actor, critic)
    named = (knobs[key] for key in ("batch_size", "actor_lr", "critic_lr", "gamma"))
    domain = (*named, config.transforms.reward_scale)
    if name.startswith(("halfcheetah", "hopper", "walker2d")):
        assert domain == (1024, 1e-3, 1e-3, 0.99, 1.0)
    elif name.startswith("antmaze"):
        assert domain == (256, 3e-4, 5e-5, 0.999, 100.0)
    else:
        assert domain == (256, 3e-4, 3e-4, 0.99, 1.0)
    assert (knobs["actor_hidden"], knobs["critic_hidden"], knobs["layer_norm"]) == ([256] * 3, [256] * 3, "post")
    assert (config.transforms.reward_shift, config.transforms.normalise_observations) == (0.0, False)
    assert config.total_timesteps == 1_000_000


def test_rebrac_has_every_dataset_of_the_table() -> None:
    kinds = ("random", "medium", "expert", "medium-expert", "medium-replay", "full-replay")
    gym = {f"{env}-{kind}" for env in ("halfcheetah", "hopper", "walker2d") for kind in kinds}
    mazes = ("umaze", "umaze-diverse", "medium-play", "medium-diverse", "large-play", "large-diverse")
    antmaze = {f"antmaze-{maze}" for maze in mazes}
    adroit = {
        f"{task}-{kind}" for task in ("pen", "door", "hammer", "relocate") for kind in ("human", "cloned", "expert")
    }
    assert gym | antmaze | adroit <= set(presets("rebrac"))
