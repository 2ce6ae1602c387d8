"""The runs of a folder: what each trained on what, how it stands, what it scores. Damaged ones are listed as such."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rl_training.errors import CheckpointError, RLTrainingError, did_you_mean
from rl_training.experiment.costs import shown_as
from rl_training.experiment.stored_estimates import estimate, in_a_word, share_trained_on
from rl_training.experiment.stored_numbers import as_number
from rl_training.paths import user_path
from rl_training.run_places import DAMAGED, STOPPED, is_locked, is_run, run_folders
from rl_training.runtime.records import OFFLINE_EVALUATIONS, Records
from rl_training.runtime.run_description import began, read_description, read_plain_config
from rl_training.runtime.standing import standing
from rl_training.validation import shortened


@dataclass(frozen=True)
class RunSummary:
    """One run; of a damaged one, what could be read, and `fault`: what is wrong in one line."""

    name: str
    path: Path
    status: str
    algo: str | None = None
    env_id: str | None = None
    dataset: str | None = None
    seeds: tuple[int, ...] = ()
    steps: int | None = None
    total_steps: int | None = None
    unit: str = "updates"
    last: float | None = None
    best: float | None = None
    offline: float | None = None  # value by the offline evaluation that a report leads with, over its trusted seeds
    offline_says: str | None = None  # beside the behaviour: better, worse, not shown, disputed; or refused
    offline_step: int | None = None  # of the weights that were evaluated
    offline_gamma: float | None = None  # that it was discounted by
    offline_trained_on: float | None = None  # share of its episodes; none where that is not known
    costs: bool = False  # last, best and offline are sums of negated costs
    created: str | None = None
    age_seconds: float | None = None
    reason: str | None = None
    fault: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "path": str(self.path), "seeds": list(self.seeds)}


def list_runs(folder: Path) -> list[RunSummary]:
    """Every run in `folder`, the newest first."""
    found = [summarise(path) for path in run_folders(folder)]
    return sorted(found, key=lambda run: (run.age_seconds is None, run.age_seconds, run.name))


def summarise(path: Path) -> RunSummary:
    """One run. Nothing that may lie in its directory raises."""
    try:
        facts, config = standing(path, read_description(path)), read_plain_config(path)
        return _summary(path, facts, config)
    except RLTrainingError as error:
        return RunSummary(path.name, path, DAMAGED, fault=" ".join(str(error).split()))
    except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError, OSError, RecursionError) as error:
        return RunSummary(path.name, path, DAMAGED, fault=f"{path}: makes no sense ({' '.join(str(error).split())})")


def status_of(path: Path) -> str:
    """How a run stands; one that says it is running while no process trains it was killed."""
    status = str(read_description(path)["status"])
    return STOPPED if status == "running" and not is_locked(path) else status


def _summary(path: Path, facts: Mapping[str, Any], config: Mapping[str, Any]) -> RunSummary:
    created = facts.get("created")
    seed = config.get("seed", 0)
    total = config.get("total_timesteps")
    status = status_of(path)
    return RunSummary(
        name=path.name,
        path=path,
        status=status,
        algo=str(config["algo"]),
        env_id=_text(config.get("env_id")),
        dataset=_dataset(config.get("dataset"), facts.get("dataset")),
        seeds=tuple(int(one) for one in (seed if isinstance(seed, list) else [seed])),
        steps=None if facts.get("step") is None else int(facts["step"]),
        total_steps=None if total is None else int(total),
        unit=str(facts.get("unit") or "updates"),
        last=_score(facts.get("last")),
        best=_score(facts.get("best")),
        **_offline(path),
        costs=shown_as(config.get("dataset"), facts.get("dataset") or {}).costs,
        created=_text(created),
        age_seconds=_age(path, created),
        reason="killed" if status == STOPPED else _text(facts.get("reason")),
    )


def _text(value: Any) -> str | None:
    return None if value is None else " ".join(str(value).split())


def _score(record: Any) -> float | None:
    return None if record is None else float(record["return_mean"])


def _offline(path: Path) -> dict[str, Any]:
    """Value, what it says beside the behaviour, step, discount and the share of its episodes that were trained on;
    nothing where nothing was estimated. A damaged record is told by who reads it."""
    try:
        records = Records(path / f"{OFFLINE_EVALUATIONS}.jsonl", once=False).read()
        shown, says = in_a_word(sorted(records, key=lambda record: int(record["step"]))) or ({}, None)
        value, step = estimate(shown.get("value")), shown.get("step")
        found = {
            "offline": None if value is None else value.value,
            "offline_says": says,
            "offline_step": None if says is None or step is None else int(step),
        }
        if value is not None:
            found |= {
                "offline_gamma": as_number(shown.get("gamma"), None),
                "offline_trained_on": share_trained_on(shown),
            }
        return found
    except (CheckpointError, OSError, LookupError, TypeError, ValueError):
        return {}


def _age(path: Path, created: Any) -> float:
    return max(0.0, time.time() - began(path, created))


def _dataset(section: Any, facts: Any) -> str | None:
    """The data in a word or two: a file's name, an id, `scripted`; `arrays` for data in memory."""
    match section:
        case None:
            return None if facts is None else "arrays"
        case {"source": "file", "path": path}:
            return Path(str(path)).name
        case {"source": "minari", "id": name}:
            return str(name)
        case {"source": "mixture", "parts": list(parts)}:
            return f"mixture of {len(parts)}"
        case _:
            return str(section["source"])


def _expanded(name: str) -> Path:
    try:
        return user_path(name)
    except ValueError as error:
        raise CheckpointError(f"{shortened(name)}: {error}") from None


def find(name: str, folder: Path) -> Path:
    """A run by its directory or by its name in `folder`."""
    for place in (_expanded(name), folder / name):
        if is_run(place):
            return place
    known = run_folders(folder)
    hint = did_you_mean(name, [path.name for path in known]) if known else " (there are no runs)"
    raise CheckpointError(f"no run {name!r} in {folder}{hint}")


def differences(one: Path, other: Path) -> dict[str, tuple[Any, ...]]:
    """Keys of the configurations (`algo_kwargs.beta`) whose values differ, with both; None where a run has none."""
    return differing_values([read_plain_config(path) for path in (one, other)])


def differing_values(configs: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """The same of any number of configurations as plain values; a run's name is no setting."""
    flat = [_flat(config) for config in configs]
    keys = [key for key in {key: None for config in flat for key in config} if key != "name"]
    found = {key: tuple(config.get(key) for config in flat) for key in keys}
    return {key: values for key, values in found.items() if any(value != values[0] for value in values)}


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        inner = isinstance(value, dict) and bool(value)
        found |= _flat(value, f"{prefix}{key}.") if inner else {f"{prefix}{key}": value}
    return found
