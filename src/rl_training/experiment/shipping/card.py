"""The JSON card beside an exported policy: what it is, how to call it, how good it is, and how to make it again."""

from __future__ import annotations

import hashlib
import math
import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from rl_training import __version__
from rl_training.data.reference_returns import reference_returns
from rl_training.environments import NamedColumn
from rl_training.errors import CheckpointError
from rl_training.experiment.costs import Shown, shown_as, shown_of
from rl_training.experiment.horizon import FURTHER_REFUSED, NEWER_REFUSED, WHOLE_REFUSED
from rl_training.experiment.manager import LoadedPolicy
from rl_training.experiment.offline_doubts import LEAST_ENDS_FORETOLD, LEAST_FORETOLD
from rl_training.experiment.report.contents import training_doubts
from rl_training.experiment.run_listing import status_of
from rl_training.experiment.shipping.network import Floats, PolicyNetwork
from rl_training.experiment.stored_estimates import contradicted, disagreement, leading, opposed, to_show
from rl_training.paths import bare_paths
from rl_training.runtime.records import EVALUATION_METRICS, OFFLINE_EVALUATIONS, is_estimate
from rl_training.runtime.run_directory import RunDirectory, run_of
from rl_training.time_features import formula

CARD_FORMAT = 1
NON_FINITE = "a row with NaN or infinity is answered with NaN in every action of that row, and of no other"


@dataclass(frozen=True)
class Circumstances:
    """What a file was made with besides the policy. checked: the largest difference from `predict`, and over what."""

    format: str
    stochastic: bool
    batch: int | None
    member: int
    made_with: Mapping[str, Any]
    checked: Mapping[str, Any]
    seed_caution: str | None = None  # what to know of its number, where the seed was chosen by it


def make_card(
    policy: LoadedPolicy, network: PolicyNetwork, circumstances: Circumstances, file: Path, data: bytes
) -> dict[str, Any]:
    """Everything JSON; no time and no folder of this machine is in it."""
    checkpoint, run = policy.checkpoint, run_of(policy.place)
    config, progress = checkpoint.config, checkpoint.progress
    seed = policy.actor.learner.seeds[circumstances.member]
    card = {
        "card_format": CARD_FORMAT,
        "file": {
            "name": file.name,
            "format": circumstances.format,
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
            **circumstances.made_with,
        },
        "policy": {
            "algo": config.algo,
            "preset": config.preset,
            "seed": seed,
            "seed_caution": circumstances.seed_caution,
            "seeds_of_the_run": list(policy.actor.learner.seeds),
            "update": int(progress["updates"]),
            "step": int(progress["steps"]),
            "step_unit": progress["unit"],
            "total": int(progress["total_steps"]),
            "status": None if run is None else status_of(run.path),
            "head": network.head,
            "hidden": [len(layer.bias) for layer in network.hidden],
            "layer_norm": network.layer_norm,
            "parameters": network.parameters(),
            "action": "a sample" if circumstances.stochastic else "the mode, as predict(deterministic=True)",
            "training_doubts": [] if run is None else training_doubts(run.path),
            "diverged": str(policy.stopped_seeds[seed]) if seed in policy.stopped_seeds else None,
        },
        "environment": config.env_id,
        "dataset": dataset_facts(policy, run),
        "inputs": _inputs(network, circumstances, checkpoint.spaces.obs_columns),
        "outputs": [_action(network, circumstances.batch, checkpoint.spaces.action_columns)],
        "normalisation": _normalisation(network),
        "non_finite": NON_FINITE,
        "scores": scores(policy, run, seed),
        "offline_evaluation": offline_evaluation(policy, run, seed),
        "check": dict(circumstances.checked),
        "versions": {"rl_training": __version__, "python": platform.python_version(), "numpy": np.__version__},
        "reproduce": {
            "commands": _commands(policy, run, seed, circumstances, file),
            "config.yaml": plain_config(policy),
        },
    }
    sound: dict[str, Any] = _without_nan(card)
    return sound


def _without_nan(value: Any) -> Any:
    """JSON has no NaN and no infinity: what is not a number is null."""
    if isinstance(value, Mapping):
        return {key: _without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def run_name(policy: LoadedPolicy) -> str:
    """What the run or checkpoint is called; `policy` where it was never written."""
    run = run_of(policy.place)
    place = policy.place if run is None else run.path
    return (place.absolute().name if place is not None else None) or "policy"


def plain_config(policy: LoadedPolicy) -> dict[str, Any]:
    """The run's complete configuration, files by their bare names: where they lay is nobody else's business."""
    plain = policy.checkpoint.config.to_plain()
    kept = {name: value for name, value in plain.items() if name not in ("name", "runs_dir")}
    bare: dict[str, Any] = bare_paths(kept)
    return bare


def dataset_facts(policy: LoadedPolicy, run: RunDirectory | None) -> dict[str, Any] | None:
    """What the run noted of its data, fingerprint included, and where they came from."""
    section = plain_config(policy)["dataset"]
    facts = run.describe().get("dataset") if run is not None else None
    return None if section is None and facts is None else {"source": section, **bare_paths(facts or {})}


def scores(policy: LoadedPolicy, run: RunDirectory | None, seed: int) -> dict[str, Any] | None:
    """The returns measured during training at this very checkpoint, and how; none where there were no evaluations."""
    config, progress = policy.checkpoint.config, policy.checkpoint.progress
    records = {record["step"]: record for record in (run.records("evaluations") if run is not None else [])}
    record = records.get(progress["steps"])
    if record is None or seed not in record["seeds"]:
        return None
    row = record["seeds"].index(seed)
    best = run.best_step() if run is not None else None
    reference = reference_returns(config.env_id)
    return {
        **{name: record[name][row] for name in EVALUATION_METRICS},
        "d4rl_normalised": None if reference is None else reference.score(record["return_mean"][row]),
        "return_mean_of_every_seed": dict(zip(map(str, record["seeds"]), record["return_mean"], strict=True)),
        "how": {
            "environment": config.env_id,
            "episodes": record["episodes"],
            "seeds_of_the_episodes": [config.evaluation.seed, config.evaluation.seed + record["episodes"] - 1],
            "actions": "the mode" if config.evaluation.deterministic else "samples",
            "return": "undiscounted sum of the raw reward over a whole episode",
            "when": f"during training, after step {record['step']}",
            "is_best_of_run": best == record["step"],
            "evaluations_in_the_run": len(records),
        },
    }


def offline_evaluation(policy: LoadedPolicy, run: RunDirectory | None, seed: int) -> dict[str, Any] | None:
    """What was estimated of this very checkpoint without a simulator: the estimate that leads the report, a trusted one
    if there is any; none where nothing was."""
    step = policy.checkpoint.progress["steps"]
    records = [] if run is None else run.records(OFFLINE_EVALUATIONS)
    if not all(map(is_estimate, records)):
        raise CheckpointError(f"{OFFLINE_EVALUATIONS}.jsonl: holds what no evaluation writes; remove it")
    of_step = [record for record in records if record["step"] == step and seed in record["seeds"]]
    if not of_step:
        return None
    own = [record["policies"][record["seeds"].index(seed)] for record in of_step]
    each = [{**record, **one, "seeds": [seed]} for record, one in zip(of_step, own, strict=True)]
    shown, others = to_show(each)
    last = leading(shown)  # as in the report
    is_older = last["value"] is not None and own[-1]["value"] is None
    refused = [(NEWER_REFUSED, why) for why in own[-1]["not_trusted_because"]] if is_older else []
    refused += _further_refused(last, each, shown)
    gain = "saving" if shown_of(policy.checkpoint.config, run).costs else "improvement"
    diagnostics = dict(last.get("diagnostics") or {})
    if not (last.get("foretold_by_the_model") or 0.0) >= LEAST_FORETOLD:
        diagnostics.pop("modelled_value", None)  # a model that foretells so little tells nothing of a policy
    if not (last.get("ends_foretold_by_the_model") or 0.0) >= LEAST_ENDS_FORETOLD:
        diagnostics.pop("modelled_ends_elsewhere", None)
    return {
        **{name: last[name] for name in own[-1]},
        "diagnostics": diagnostics,
        **{name: last[name] for name in ("behaviour", "gamma", "updates", "repeats", "level")},
        "cautions": [*last["cautions"], *dict.fromkeys(f"{told}, because {why}" for told, why in refused)],
        "disagreement": disagreement(last, opposed(last, each), gain) or None,
        "contradicted": contradicted(others) or None,
        "data": {**last["data"], "title": PurePath(last["data"]["title"]).name},
        "how": "fitted Q evaluation: value where the data's episodes begin, raw reward",
    }


def _further_refused(
    last: Mapping[str, Any], each: Sequence[Mapping[str, Any]], shown: Sequence[Mapping[str, Any]]
) -> list[tuple[str, str]]:
    """Why those were refused that look further ahead than the trusted one which is shown, unless such a one is trusted
    and stands."""
    further = [one for one in each if one["gamma"] > last["gamma"] and one["value"] is None]
    standing = any(one["gamma"] > last["gamma"] and one["value"] is not None for one in shown)
    if last["value"] is None or not further or standing:
        return []
    what = WHOLE_REFUSED if further[-1]["gamma"] == 1.0 else FURTHER_REFUSED
    return [(what, why) for why in further[-1]["not_trusted_because"]]


def shown_by_card(card: Mapping[str, Any]) -> Shown:
    """Whether what a card says of rewards is shown as costs."""
    data = card["dataset"] or {}
    return shown_as(data.get("source"), data)


def _inputs(
    network: PolicyNetwork, circumstances: Circumstances, columns: Sequence[NamedColumn]
) -> list[dict[str, Any]]:
    rows: str | int = "batch" if circumstances.batch is None else circumstances.batch
    units = "as the data or the environment have them, neither normalised nor clipped"
    obs = {"name": "obs", "type": "float32", "shape": [rows, network.obs_dim], "units": units}
    inputs = [obs | _columns(columns)]
    if circumstances.stochastic:
        shape = [rows, network.act_dim]
        inputs.append({"name": "noise", "type": "float32", "shape": shape, "units": "standard normal, fresh each call"})
    return inputs


def _columns(columns: Sequence[NamedColumn]) -> dict[str, Any]:
    """What the data call the values, in their order, and between what they lay; nothing where they have no names."""
    named = [
        {"name": column.name, "observed": [column.low, column.high]}
        | ({"words": dict(column.words)} if column.words else {})
        | ({"computed": computed_from(column)} if column.time else {})
        for column in columns
    ]
    return {"columns": named} if named else {}


def computed_from(column: NamedColumn) -> str:
    """How the value is computed, for whoever calls the policy."""
    return f"{formula(column.name)}, of the local time as in the data's column {column.time!r}"


def _action(network: PolicyNetwork, batch: int | None, columns: Sequence[NamedColumn]) -> dict[str, Any]:
    return {
        "name": "action",
        "type": "float32",
        "shape": ["batch" if batch is None else batch, network.act_dim],
        "units": "as the data or the environment have them",
        "low": _plain(network.low),
        "high": _plain(network.high),
        **_columns(columns),
    }


def _normalisation(network: PolicyNetwork) -> dict[str, Any]:
    s = network.standardisation
    inside: dict[str, Any] = {
        "where": "inside the file",
        "actions": "low + (a + 1) / 2 * (high - low), clipped to [low, high]",
    }
    if network.gaps:
        inside["actions"] += ", moved to the nearer side of the gaps of their columns"
        inside["gaps"] = [gap._asdict() for gap in network.gaps]
    if s is None:
        return {**inside, "observations": "none"}
    mean = (s.mean_high.astype(np.float64) + s.mean_low).tolist()
    return {**inside, "observations": "(obs - mean) / divisor", "mean": mean, "divisor": _plain(s.divisor)}


def _commands(
    policy: LoadedPolicy, run: RunDirectory | None, seed: int, circumstances: Circumstances, file: Path
) -> list[str]:
    name = run_name(policy)
    if run is None:
        return [f"rl-training export {shlex.quote(name)} --seed {seed} -o {shlex.quote(file.name)}"]
    options = [f"--which {policy.checkpoint.progress['steps']}", f"--seed {seed}", f"--format {circumstances.format}"]
    options += ["--stochastic"] if circumstances.stochastic else []
    options += [] if circumstances.batch is None else [f"--batch {circumstances.batch}"]
    export = f"rl-training export {shlex.quote(name)} {' '.join(options)} -o {shlex.quote(file.name)}"
    if policy.checkpoint.config.dataset is None and run.describe().get("dataset") is not None:
        return [export]  # trained in Python from arrays in memory, which no command has
    return [f"rl-training train -c config.yaml --name {shlex.quote(name)}", export]


def _plain(values: Floats) -> list[float]:
    return [float(str(value)) for value in values]  # 0.1, not 0.10000000149011612
