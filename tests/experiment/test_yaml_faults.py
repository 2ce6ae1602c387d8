"""Configurations that are no YAML, or strange YAML, are told of in a time that grows with their length alone."""

from __future__ import annotations

import pytest

from rl_training import yaml_dialect
from rl_training.data.name_series import pattern_of
from rl_training.experiment.costs import _UNIT_LAST
from rl_training.experiment.yaml_faults import way_out

LONG = 250_000  # characters; in squared time, minutes


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('a: "' + '\\"' * (LONG // 2) + "\n  b: [", '; a quote in line 1 `a: "'),
        ("a: '" + "''" * (LONG // 2) + "\n  b: [", "; a quote in line 1 `a: '"),
        ("a: " + "['" * (LONG // 2), "; the bracket [ of line 1 `a: ["),
        ("x: {" + "a: 'b', " * (LONG // 8), "; the bracket { of line 1 `x: {"),
        ("seed" + " " * LONG + "= 3\na: b", "; write line 1 `seed"),
        ("a b\n" * (LONG // 4), f"; write line {LONG // 4} `a b` as `a: b`"),
    ],
    ids=["escaped quotes", "doubled quotes", "nested", "pairs", "blanks", "lines"],
)
def test_long_texts(text: str, told: str) -> None:
    assert way_out(text, f"at line {LONG} (found unexpected end of stream)").startswith(told)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("load dry=termination", "write line 2 `load dry=termination` as `load dry: termination`"),
        ("seed = 3", "write line 2 `seed = 3` as `seed: 3`"),
        ("actions:', ['Gas', 'Damper']", "line 2 `actions:', ['Gas', 'Damper']`: look at its quotes and brackets"),
        ("actions:[Gas, Damper]", "write line 2 `actions:[Gas, Damper]` as `actions: [Gas, Damper]`"),
    ],
)
def test_what_is_proposed_can_be_read(line: str, told: str) -> None:
    assert way_out(f"a: b\n{line}\nc: d", "at line 3 (could not find expected ':')") == f"; {told}"


@pytest.mark.parametrize("value", ["[abs(Moisture [%] - 4)]", "`x`", "@home"])
def test_signs_that_begin_no_value(value: str) -> None:
    with pytest.raises(ValueError, match="cannot start any token") as error:
        yaml_dialect.read(f"rewards: {value}")
    assert way_out(f"rewards: {value}", str(error.value)).startswith("; a text with such a sign stands in quotes")


def test_a_number_to_the_base_of_sixty_is_not_multiplied_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(yaml_dialect.yaml.SafeLoader, "construct_yaml_int", refuse)
    with pytest.raises(ValueError, match="may mean several numbers"):
        yaml_dialect.read("a: 1" + ":1" * (LONG // 2))


def test_long_names_of_columns() -> None:
    names = [f"{'1' * LONG}x{place}" for place in range(3)]
    assert pattern_of(names, names, lambda name, start, end: name.startswith(start)) == f"{names[0][:-1]}*"
    assert _UNIT_LAST.search(f"cost ({' ' * LONG}") is None
    found = _UNIT_LAST.search("cost [ EUR ]")
    assert found is not None
    assert found[1] == "EUR"
