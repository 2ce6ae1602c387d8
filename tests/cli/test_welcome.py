"""`rl-training` alone: one screenful with the way from a file to a policy."""

from __future__ import annotations

from typing import Any


def test_alone_it_fits_a_screen_and_shows_the_way(command: Any) -> None:
    code, out, err = command()
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    places = [
        out.index(f"rl-training {word}") for word in ("init", "data check", "data split", "train", "runs", "evaluate")
    ]
    assert places == sorted(places)
    assert "rl-training data check -c config.yaml" in out  # a real log's columns have names of their own
    assert "rl-training data split -c config.yaml -o train.csv aside.csv" in out
    assert "rl-training COMMAND --help" in out
    assert "rl-training evaluate RUN [--offline]" in out
