"""Configurations of any kind: read, or refused in one line."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mutations import VALUES, is_answered, mutated
from rl_training import algorithms
from rl_training.cli.main import main
from rl_training.experiment.assets import ASSETS
from rl_training.experiment.config import packaged_configs, read_config, to_yaml
from rl_training.runtime.config import TrainConfig

ROUNDS = pytest.mark.parametrize("rounds", [150, pytest.param(5_000, marks=pytest.mark.slow)])
FUZZ = settings(
    derandomize=True, deadline=None, database=None, max_examples=200, suppress_health_check=list(HealthCheck)
)

# Pieces of YAML that some reader stumbles over.
PIECES = (
    *("!!bool foo", "!!int ''", "!!int x", "!!float ''", "!!timestamp x", "!!binary '*'", "!!set [a]", "!!omap x"),
    *("!!python/object/apply:os.getcwd []", "!!python/name:os.system", "!x y", "1:99:99", ":".join(["59"] * 2000)),
    *(":".join(["59"] * 2000) + ".5", "9" * 5000, "0x" + "f" * 5000, "1e99999", "-.inf", ".nan", "=", "<<"),
    *("2001-99-99", "0001-01-01t00:00:00+23:00", "? [a]\n: b", "*x", "&x [*x]", "&x {<<: *x}", '"\\uD800"'),
    *('"\\x1b[2J"', "[" * 3000, "{a: " * 3000, "- " * 3000, "'" + "x" * 100_000 + "'", "%YAML 9.9", "--- a\n--- b"),
    *("\t", "\ufeff", "\x85", "\u2028", "~", "", "yes", "-0", "1e-400", "_", "{a: {b: c}}"),
)
KEYS = (*TrainConfig.model_fields, "algo_kwargs.batch_size", "algo_kwargs.actor_hidden", "dataset.path", "x.y.z")


def laughs(how: str, depth: int, width: int, end: str) -> str:
    """A few lines that stand for `width ** depth` values."""
    lines = ["a0: &a0 {k: 1}"]
    for i in range(1, depth):
        before = [f"*a{i - 1}"] * width
        inside = {
            "sequences": f"[{', '.join(before)}]",
            "mappings": "{" + ", ".join(f"k{j}: {alias}" for j, alias in enumerate(before)) + "}",
            "merges": f"{{<<: [{', '.join(before)}]}}",
            "pairs": f"!!pairs [{', '.join(f'k: {alias}' for alias in before)}]",
        }
        lines.append(f"a{i}: &a{i} {inside[how]}")
    return "\n".join([*lines, "algo: bc", "total_timesteps: 5", f"{end}: *a{depth - 1}"])


def read_and_write(name: str, *overrides: str) -> None:
    to_yaml(read_config(name, overrides)).encode()


@ROUNDS
def test_mutated_files(rounds: int, tmp_path: Path) -> None:
    texts = [(ASSETS / f"{name}.yaml").read_bytes() for name in packaged_configs()]
    file = tmp_path / "c.yaml"
    for seed in range(rounds):
        chance = random.Random(seed)
        file.write_bytes(mutated(chance.choice(texts), chance))
        is_answered(lambda: read_and_write(str(file)), f"seed {seed}")


@ROUNDS
def test_strange_pieces(rounds: int, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    for seed in range(rounds):
        chance = random.Random(seed)
        key, piece = chance.choice(KEYS), chance.choice(PIECES)
        if chance.random() < 0.5:
            is_answered(lambda key=key, piece=piece: read_and_write("bc/pendulum", f"{key}={piece}"), f"seed {seed}")
            continue
        first = key.partition(".")[0]
        whole = chance.choice((piece, f"{piece}: 5\nalgo: bc", f"algo: bc\ntotal_timesteps: 5\n{first}: {piece}"))
        file.write_bytes(whole.encode("utf-8", "surrogatepass"))
        is_answered(lambda: read_and_write(str(file)), f"seed {seed}: {whole[:80]!r}")


@pytest.mark.parametrize("how", ["sequences", "mappings", "merges", "pairs"])
@pytest.mark.parametrize("end", ["preset", "algo_kwargs", "dataset", "name", "seed", "runs_dir"])
def test_what_multiplies(how: str, end: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(laughs(how, 20, 10, end))
    assert not is_answered(lambda: read_and_write(str(tmp_path / "c.yaml")), f"{how} {end}")


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**20, 10**30)
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=5)
    | st.sampled_from(VALUES),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
some_options = st.dictionaries(st.sampled_from(list(TrainConfig.model_fields)), plain, max_size=4)


@FUZZ
@given(some_options)
def test_any_values(changes: dict[str, Any]) -> None:
    values = {"algo": "bc", "total_timesteps": 5, **changes}
    is_answered(lambda: TrainConfig.parse(values).to_plain(), f"{changes!r:.200}")


@FUZZ
@given(st.sampled_from(sorted(algorithms.find())), st.data())
def test_any_parameters(algo: str, data: st.DataObject) -> None:
    names = st.sampled_from(list(algorithms.load(algo).Params.model_fields)) | st.text(max_size=8)
    values = {"algo": algo, "total_timesteps": 5, "algo_kwargs": data.draw(st.dictionaries(names, plain, max_size=3))}
    is_answered(lambda: TrainConfig.parse(values).to_plain(), f"{values!r:.200}")


@FUZZ
@given(st.text(max_size=60))
def test_any_override(override: str) -> None:
    is_answered(lambda: read_and_write("bc/pendulum", override), repr(override))


@pytest.mark.parametrize("piece", PIECES)
def test_the_command_exits_with_2_and_one_line(
    piece: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c.yaml").write_bytes(f"algo: bc\nevaluation: {piece}".encode("utf-8", "surrogatepass"))
    monkeypatch.setattr(sys, "argv", ["rl-training", "config", "validate", str(tmp_path / "c.yaml")])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert (ended.value.code, said.count("\n")) == (2, 1)
    assert said.startswith("error: ")
