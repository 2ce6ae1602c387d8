"""What is suggested for a mistyped name."""

from __future__ import annotations

import difflib

import pytest

from rl_training.errors import did_you_mean

ENVIRONMENTS = [*(f"{name}-v{v}" for name in ("Hopper", "Pendulum", "Walker2d") for v in (4, 5)), "gym/Point-v0"]
ENVIRONMENTS += [f"extra/Env{i}-v0" for i in range(12)]


@pytest.mark.parametrize(
    ("word", "known", "suggested"),
    [
        ("Hoper-v4", ENVIRONMENTS, "; did you mean 'Hopper-v4'?"),
        ("hopper-v5", ENVIRONMENTS, "; did you mean 'Hopper-v5'?"),
        ("Nope-v0", ENVIRONMENTS, ""),  # only the version is alike
        ("gym/Maze-v0", ENVIRONMENTS, ""),  # only the namespace is
        ("cql/pendulm", ["iql/pendulum", "cql/pendulum", "cql/hopper"], "; did you mean 'cql/pendulum'?"),
        ("sed", ["seed", "name"], "; did you mean 'seed'?"),
        ("qqq", ["seed", "name"], "; choose from name, seed"),
        ("qqq", [], ""),
        ("lerning_rate", ["actor_lr", "critic_lr", "tau"], "; did you mean 'actor_lr' or 'critic_lr'?"),
        ("learning_rate", ["actor_lr", "tau"], "; did you mean 'actor_lr'?"),
        ("learning_rate", ["learning_rates"], "; did you mean 'learning_rates'?"),
        ("learning_rate", ["seed", "name"], "; choose from name, seed"),
    ],
)
def test_near_names_only(word: str, known: list[str], suggested: str) -> None:
    assert did_you_mean(word, known) == suggested


def test_a_word_without_end_is_compared_with_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    def record(_: None, one: str, other: str) -> difflib.SequenceMatcher[str]:
        compared.append(len(one) + len(other))
        return matcher(None, one, other)

    matcher = difflib.SequenceMatcher
    monkeypatch.setattr(difflib, "SequenceMatcher", record)
    assert did_you_mean("x" * 100_000, ENVIRONMENTS) == ""
    assert did_you_mean("Hoper-v4", ["x" * 100_000, "Hopper-v4"]) == "; did you mean 'Hopper-v4'?"
    assert max(compared) <= 400
