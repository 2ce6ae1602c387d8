"""A folder for the Hugging Face hub: the policy as ONNX, its card, its configuration and a page; and its upload."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rl_training import yaml_dialect
from rl_training.data.doctor.wording import capital
from rl_training.data.formats.atomic import new_folder
from rl_training.errors import ConfigError
from rl_training.experiment.costs import Shown
from rl_training.experiment.horizon import discounted_by
from rl_training.experiment.manager import LoadedPolicy
from rl_training.experiment.offline_doubts import TOO_SHORT
from rl_training.experiment.shipping.card import plain_config, shown_by_card
from rl_training.experiment.shipping.exporting import card_path_of, make_files
from rl_training.experiment.statistics import Estimate
from rl_training.validation import is_count, shown
from rl_training.wording import amount, likely, readable, taken

POLICY = "policy.onnx"
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")

# What a reader runs; a test does, where neither torch nor this package can be imported.
SCRIPT = """\
import json

import numpy as np
import onnxruntime

card = json.load(open("policy.onnx.json"))
policy = onnxruntime.InferenceSession("policy.onnx")
obs = np.zeros((1, card["inputs"][0]["shape"][1]), np.float32)  # as the environment gives it
(action,) = policy.run(["action"], {"obs": obs})
print(action)
"""


def require_repository(repo: str) -> None:
    """A name the hub can have."""
    if not _REPOSITORY.fullmatch(repo):
        raise ConfigError(f"--repo: must be user/name, got {shown(repo)}")


def require_client() -> Any:
    """The module `huggingface_hub`."""
    try:
        import huggingface_hub
    except ImportError:
        raise ConfigError(
            "huggingface_hub: is not installed; pip install 'rl-training[hub]', or --dry-run -o FOLDER"
        ) from None
    return huggingface_hub


def write_folder(
    policy: LoadedPolicy, folder: Path, repo: str, *, seed: int | None = None, told: str | None = None
) -> None:
    """Everything the hub gets, in a new folder that is there completely or not at all.

    told: what to say of a folder that cannot be written, where its name is none that the user knows.
    """
    if os.path.lexists(folder):
        raise ConfigError(_taken(folder))
    made = make_files(policy, Path(POLICY), "onnx", seed=seed)
    files = {
        POLICY: made.data,
        card_path_of(Path(POLICY)).name: made.card_data,
        "config.yaml": yaml_dialect.write(plain_config(policy)).encode(),
        "README.md": page(made.card, repo).encode(),
    }
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with new_folder(folder, replace=False) as temporary:
            temporary.mkdir()
            for name, data in files.items():
                (temporary / name).write_bytes(data)
    except OSError as error:
        if isinstance(error, FileExistsError) and os.path.lexists(folder):  # it has come since
            raise ConfigError(_taken(folder)) from None
        raise ConfigError(f"{told or f'{folder}: cannot be written'} ({error.strerror or error})") from None


def _taken(folder: Path) -> str:
    return taken(folder, "name a folder that does not")


def upload(folder: Path, repo: str, *, private: bool) -> str:
    """Make the repository if it is not there, send the folder, and return where it lies."""
    client = require_client()
    try:
        api = client.HfApi()
        api.create_repo(repo, private=private, exist_ok=True)
        api.upload_folder(repo_id=repo, folder_path=str(folder), commit_message="Policy exported by rl-training")
    # The client raises its own errors, those of its HTTP library (which changes) and Python's; all mean the same here.
    except Exception as error:
        text = " ".join(str(error).split()) or type(error).__name__
        text = text if len(text) <= 300 else f"{text[:300]}…"
        raise ConfigError(f"{repo}: could not be uploaded ({text}); `hf auth login` logs you in") from None
    return f"https://huggingface.co/{repo}"


def page(card: Mapping[str, Any], repo: str) -> str:
    """The model card: metadata the hub reads, then what a person wants to know."""
    return "\n".join([*_metadata(card, repo), "", *_text(card)]) + "\n"


def _metadata(card: Mapping[str, Any], repo: str) -> Iterator[str]:
    algo, env_id, scores = card["policy"]["algo"], card["environment"], card["scores"]
    task = {"type": "reinforcement-learning", "name": "reinforcement-learning"}
    entry: dict[str, Any] = {"name": repo.partition("/")[2]}
    if scores is not None:
        value = f"{scores['return_mean']:.2f} +/- {scores['return_std']:.2f}"
        metric = {"type": "mean_reward", "name": "mean_reward", "value": value, "verified": False}
        entry["results"] = [{"task": task, "dataset": {"name": env_id, "type": env_id}, "metrics": [metric]}]
    tags = ["reinforcement-learning", "offline-rl", "continuous-control", "onnx", algo, *([env_id] if env_id else [])]
    metadata: dict[str, Any] = {"library_name": "rl-training", "tags": tags}
    if scores is not None:
        metadata["model-index"] = [entry]
    yield f"---\n{yaml_dialect.write(metadata).rstrip()}\n---"


def _text(card: Mapping[str, Any]) -> Iterator[str]:
    policy, (output,) = card["policy"], card["outputs"]
    where = f" for {_as_text(card['environment'])}" if card["environment"] else ""
    yield f"# {policy['algo']}{where}\n"
    yield f"A policy trained by rl-training {card['versions']['rl_training']}:"
    yield f"{policy['algo']}, seed {policy['seed']}, after {amount(policy['update'], 'update')}"
    yield f"({policy['parameters']:,} weights, hidden layers {policy['hidden']}).\n"
    yield "## Use it\n"
    yield "It needs numpy and onnxruntime; every transform is inside the file.\n"
    yield f"```python\n{SCRIPT}```\n"
    yield f"Input `obs`: float32 `{card['inputs'][0]['shape']}`, units: {card['inputs'][0]['units']}."
    yield f"Output `action`: float32 `{output['shape']}`, from `{output['low']}` to `{output['high']}`."
    yield f"Observations that are not finite: {card['non_finite']}.\n"
    yield "## How good it is\n"
    yield from _score_lines(card["scores"], card["offline_evaluation"], shown_by_card(card))
    if (caution := card["policy"]["seed_caution"]) is not None:
        yield f"{capital(caution)}."
    yield from (f"\nTo be doubted: {doubt}." for doubt in policy["training_doubts"])
    yield "\n## What it was trained on\n"
    yield from _data_lines(card["dataset"])
    yield "\n## Make it again\n"
    yield "`config.yaml` is complete; paths in it are bare file names.\n"
    yield "```console"
    yield from (f"$ {line}" for line in card["reproduce"]["commands"])
    yield f"```\n\nSHA-256 of `{POLICY}`: `{card['file']['sha256']}`"


def _score_lines(scores: Mapping[str, Any] | None, estimate: Mapping[str, Any] | None, sign: Shown) -> Iterator[str]:
    """As costs, where the data's file has costs."""
    if estimate is not None:
        yield from _estimate_lines(estimate, sign)
    if scores is None and estimate is not None:
        return
    if scores is None:
        yield "It was not evaluated at this checkpoint: nothing is known about how good it is."
        return
    how, mean = scores["how"], readable(sign.number(scores["return_mean"]))
    yield f"{capital(sign.noun)} {mean} ± {readable(scores['return_std'])}{_as_text(sign.behind)} over"
    where = _as_text(how["environment"] or "an environment that is not told")
    yield f"{amount(how['episodes'], 'episode')} of {where} ({how['return']}; {how['actions']};"
    first, last = how["seeds_of_the_episodes"]
    yield f"episode seeds {first} to {last}; {how['when']}){_LOWER if sign.costs else ''}."
    if scores["d4rl_normalised"] is not None:
        yield f"On D4RL's scale: {readable(scores['d4rl_normalised'])}."
    if how["is_best_of_run"] and how["evaluations_in_the_run"] > 1:
        count = how["evaluations_in_the_run"]
        yield f"It is the best of {count} evaluations of the run, so this number is optimistic."
    others = scores["return_mean_of_every_seed"]
    if len(others) > 1:
        listed = ", ".join(f"{seed}: {readable(sign.number(value))}" for seed, value in others.items())
        yield f"{capital(sign.noun)}s of every seed of the run: {listed}."


_LOWER = "; costs are the negative of rewards, and lower is better"


def _estimate_lines(estimate: Mapping[str, Any], sign: Shown) -> Iterator[str]:
    value, gain = estimate["value"], estimate["improvement"]
    if value is None or gain is None:
        why = "; ".join(estimate["not_trusted_because"])
        if TOO_SHORT in estimate["not_trusted_because"]:
            yield "Not judged yet: only a trial fit was made from logged episodes, too short to tell anything."
            return
        yield f"There is no reliable estimate: what logged episodes alone tell is not to be trusted, because {why}."
        return
    sums = sign.estimate(Estimate(value["value"], value["low"], value["high"]))
    unit = _as_text(sign.behind)
    what, better = ("cost", "a saving") if sign.costs else ("value", "an improvement")
    yield f"Estimated from logged episodes, without a simulator: {what} {_with_ends(sums)}{unit}, {better}"
    yield f"of {_with_ends(Estimate(gain['value'], gain['low'], gain['high']))} over the behaviour with probability"
    yield f"{likely(gain['probability'])} ({estimate['how']}, {discounted_by(estimate['gamma'])}; in brackets"
    yield f"{estimate['level']:.0%} intervals){_LOWER if sign.costs else ''}."
    if estimate.get("disagreement"):
        yield f"It is not decided whether that is one: {estimate['disagreement']}."


def _with_ends(found: Estimate) -> str:
    if found.low is None or found.high is None:
        return readable(found.value)
    return f"{readable(found.value)} ({readable(found.low)} to {readable(found.high)})"


def _as_text(name: str) -> str:
    """A name from a file, in which Markdown finds nothing to do."""
    return re.sub(r"([\\`*_\[\]<>#|~])", r"\\\1", name)


def _data_lines(dataset: Mapping[str, Any] | None) -> Iterator[str]:
    if dataset is None:
        yield "On no dataset: it collected its own experience."
        return
    source = dataset["source"] or {"source": "arrays in memory"}
    name = source.get("path") or source.get("id") or source["source"]
    rows: Any = dataset.get("transitions") or dataset.get("rows")
    yield (
        "`{}`".format(str(name).replace("`", "'"))
        + (f", {amount(rows, 'transition')}" if is_count(rows, 1) else "")
        + "."
    )
    if dataset.get("fingerprint"):
        yield f"Fingerprint (SHA-256 over its fields): `{dataset['fingerprint']}`."
