"""What a message proposes can be typed as it stands: into a configuration, and on the command line."""

from __future__ import annotations

import re
import shlex
from typing import Any

import numpy as np
import pytest

from rl_training import yaml_dialect
from rl_training.cli.hints_as_options import in_options
from rl_training.cli.reading_options import Reading
from rl_training.data import TransitionDataset
from rl_training.data.dataset_loaders import FileDatasetConfig
from rl_training.data.fields import hint
from rl_training.data.formats.names import listed
from rl_training.data.formats.step_columns import not_the_step
from rl_training.data.reading_options import ReadingOptions
from rl_training.errors import DataError
from rl_training.option_words import NAMED_ALONE, NAMED_WITH_VALUES

IDS = ["run", "Run #", "run: id", "Run, no.", "#run", "*run", "&run", "- run", "? run", "run:", "!run", "@run", "run\\"]
STEPS = ["time [s]", "time, s", "time: s", "[step]", "# step", "Time (s)", "timestamp (UTC)"]
TEXTS = ["E12: overheat", "crash, left", "null", "?", "yes", "1e3", "0x1", "12:30", "*", "#", "[x]", "{", "'", '"', "~"]
TEXTS += ["-", "--", "=", "a=b", "<<", "\\", "|", "%", "2024-01-01", "-1", "é", "it's"]


def said(message: str, key: str) -> Any:
    """What the message proposes for a key of the dataset's section."""
    found = re.search(rf"\b{key}: (\{{.*\}})", message)
    assert found, message
    return yaml_dialect.read(f"{key}: {found[1]}")[key]


def typed(message: str, option: str) -> str:
    """What a shell makes of the option that the message proposes."""
    line = in_options(message)
    words = shlex.split(line[line.index(option) :].partition(" (or")[0])
    assert words[0] == option
    return words[1]


@pytest.mark.parametrize("name", IDS)
def test_a_column_of_ids(name: str) -> None:
    message = hint(name, ())
    assert message is not None
    assert said(message, "columns") == {"episode_ids": name}
    assert Reading(columns=[typed(message, "--columns")]).column_mapping() == {"episode_ids": name}


@pytest.mark.parametrize("name", STEPS)
def test_a_column_of_steps(name: str) -> None:
    for message in (hint(name, ()), not_the_step(name)):
        assert message is not None
        assert said(message, "columns") == {"step": name}
        assert Reading(columns=[typed(message, "--columns")]).column_mapping() == {"step": name}


@pytest.mark.parametrize("name", ["rewards:", "rewards,", "'rewards"])
def test_a_column_named_almost_like_a_field(name: str) -> None:
    message = hint(name, ())
    assert message is not None
    assert said(message, "columns") == {"rewards": name}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("others", [None, {"goal": "termination"}], ids=["no meaning yet", "a new text"])
def test_a_reason(text: str, others: Any) -> None:
    table = {
        "obs": np.arange(4.0),
        "actions": [0.1, 0.2, 0.3, 0.4],
        "rewards": np.ones(4),
        "run": [0, 0, 1, 1],
        "why": ["", text, "", text],
    }
    columns = {"episode_ids": "run", "end_reasons": "why"}
    with pytest.raises(DataError) as caught:
        TransitionDataset.from_table(table, columns, **({} if others is None else {"end_reasons": others}))
    message = str(caught.value).rpartition("say what")[2]
    section = {"path": "log.csv", "columns": columns, "end_reasons": said(message, "end_reasons")}
    reasons = FileDatasetConfig(**section).end_reasons
    assert TransitionDataset.from_table(table, columns, end_reasons=reasons).terminations.sum() == 2
    assert Reading(end_reasons=[typed(message, "--end-reasons")]).reasons() == {text: "termination"}


def test_what_a_line_cannot_show() -> None:
    """Ends of lines are written as escapes; a text without end is left for its reader to name."""
    assert yaml_dialect.read(yaml_dialect.proposed("a\nb", "termination")) == {"a\nb": "termination"}
    assert yaml_dialect.proposed("x" * 5_000, "termination") == "{…: termination}"
    assert (
        in_options("say end_reasons: {…: termination} (or ongoing)") == "say --end-reasons …=termination (or ongoing)"
    )
    message = in_options("say columns: " + yaml_dialect.proposed("step", "a\nb"))
    assert message == 'say columns: {"step": "a\\nb"}'


@pytest.mark.parametrize(
    ("message", "options"),
    [
        ("missing_words: ['[x]', '1,5', ERR]", ["--missing-words", '[x],"1,5",ERR']),
        ("words: {'door {a}': {'shut, or not': 0, open: 1}}", ["--words", 'door {a}="shut, or not:0",open:1']),
        ("columns: {obs: ['a, b', 'c]', d]}", ["--columns", 'obs="a, b",c],d']),
        ("end_reasons: {goal: termination, 'a: b': termination}",
         ["--end-reasons", "goal=termination", "--end-reasons", "a: b=termination"]),
    ],
)  # fmt: skip
def test_lists_and_mappings_become_options(message: str, options: list[str]) -> None:
    assert shlex.split(in_options(message)) == options


OPTIONS = ["dones_are", "max_episode_steps", "end_reasons", "action_low", "episode_each", "observe_time"]
LIKE_OPTIONS = [*OPTIONS, "last_rows_are", "missing: drop", "download: true", "columns: {obs: x}", "rewards_are: costs"]


class TestWhatIsTheUsersOwn:
    """A name or a text that reads as an option is left as it is."""

    def test_the_words_are_those_of_the_options(self) -> None:
        words = {*NAMED_ALONE, *NAMED_WITH_VALUES}
        assert words <= {"columns", "download", *ReadingOptions.model_fields}

    @pytest.mark.parametrize("name", LIKE_OPTIONS)
    @pytest.mark.parametrize(
        "around", ["column {!r} has no numbers", "did you mean {!r}?", "several: [x, {}]", "`rm {}`"]
    )
    def test_in_quotes_and_in_lists(self, name: str, around: str) -> None:
        message = around.format(name)
        assert in_options(f"{message}; say dones_are: ends") == f"{message}; say --dones-are ends"

    @pytest.mark.parametrize("name", LIKE_OPTIONS)
    def test_among_names(self, name: str) -> None:
        listing = f"the data have {listed(['x', name, 'y'])}"
        assert in_options(listing) == listing == f"the data have x, {name!r}, y"

    @pytest.mark.parametrize("name", ["'tis", "rock 'n roll", "5 ` 3", 'so "', "dogs' "])
    def test_one_end_of_a_quote(self, name: str) -> None:
        listing = f"the data have {listed([name])}; column 'action_low' is not used"
        assert in_options(listing) == listing

    @pytest.mark.parametrize("place", ["/data/action_low/x.csv", "dataset.action_low", "a.dones_are", "my-end_reasons"])
    def test_in_paths_and_longer_names(self, place: str) -> None:
        assert in_options(f"{place}: is wrong") == f"{place}: is wrong"

    @pytest.mark.parametrize(
        "text", ["missing: drop", "end_reasons: {x: termination}", "action_low", "too\xa0slow", "'tis"]
    )
    def test_a_text_that_tells_why_episodes_end(self, text: str) -> None:
        table = {"obs": np.arange(4.0), "actions": [0.1, 0.2, 0.3, 0.4], "rewards": np.ones(4), "run": [0, 0, 1, 1]}
        with pytest.raises(DataError) as caught:
            TransitionDataset.from_table(
                table | {"why": ["", text, "", text]}, {"episode_ids": "run", "end_reasons": "why"}
            )
        message = in_options(str(caught.value))
        if text.isprintable():
            assert Reading(end_reasons=[typed(message, "--end-reasons")]).reasons() == {text: "termination"}
        else:  # as YAML, from one end to the other
            assert said(message, "end_reasons") == {text: "termination"}
            assert "--" not in message
        assert message.partition("it holds ")[2] == str(caught.value).partition("it holds ")[2]

    def test_what_the_package_proposes(self) -> None:
        message = "give wider bounds (action_low, action_high), or max_episode_steps, dones_are: ends or missing: hold"
        options = "(--action-low, --action-high), or --max-episode-steps, --dones-are ends or --missing hold"
        assert in_options(message) == f"give wider bounds {options}"
