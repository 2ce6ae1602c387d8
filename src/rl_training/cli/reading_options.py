"""The options of every command that reads data, defined once: which columns hold what, and what its flags mean."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any, get_type_hints

import typer

from rl_training import reading_choices
from rl_training.errors import ConfigError
from rl_training.reading_choices import AtTermination as AddedAtTermination
from rl_training.reading_choices import TableChoices, Understanding

Columns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FIELD=NAMES", help="Which columns, or arrays, hold a field: obs=x,y or obs=obs_* (repeat for more)."
    ),
]
TimeLimits = Annotated[
    reading_choices.TimeLimits, typer.Option(help="d4rl: drop rows at a time limit, successors from the next row.")
]
MaxEpisodeSteps = Annotated[
    int | None, typer.Option(min=1, help="Where no truncations are marked: rows after which episodes were cut.")
]
DonesAre = Annotated[reading_choices.DonesAre | None, typer.Option(help="What a plain dones flag means.")]
RewardsAre = Annotated[
    reading_choices.RewardsAre | None, typer.Option(help="costs: lower is better, rewards are their negative.")
]
RewardsAt = Annotated[
    reading_choices.RewardsAt, typer.Option(help="next: a step's reward stands in the row after; last rows go.")
]
AtTermination = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NUMBER",
        help="Added to the reward of a row that terminates, or to its cost; by reason: crash=-100 (repeat for more).",
    ),
]
Missing = Annotated[
    reading_choices.Missing,
    typer.Option(
        help="drop: leave out rows with an empty cell or NaN, and cut there; hold: take the last value before."
    ),
]
MissingWords = Annotated[
    str | None, typer.Option(metavar="WORDS", help="What else stands for a missing number in a table: ERR,-9999.")
]
Words = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=WORDS",
        help="Numbers that the words of a table's column stand for: door=shut:0,open:1 (repeat for more).",
    ),
]
Duplicates = Annotated[
    reading_choices.Duplicates, typer.Option(help="drop: leave out rows that are copies of the row of the same step.")
]
EpisodeEach = Annotated[
    reading_choices.EpisodeEach | None,
    typer.Option(help="By the dates of a table's step column, an episode each; last ones may be parts."),
]
ObserveTime = Annotated[
    str | None,
    typer.Option(metavar="PERIODS", help="Observe the time by these dates, as sine and cosine: day or day,week,year."),
]
LastRowsAre = Annotated[
    reading_choices.LastRowsAre,
    typer.Option(help="What the last row of an episode is that ends by its id or date alone."),
]
EndReasons = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEXT=MEANING",
        help="What a text of the column end_reasons means: crash=termination, timeout=truncation or wait=ongoing"
        " (repeat for more).",
    ),
]
Side = Annotated[
    str | None, typer.Option(metavar="NUMBERS", help="The bounds of actions: a number, or one for each, 0,-1.")
]
Download = Annotated[bool, typer.Option("--download", help="Fetch a Minari dataset that is not here.")]


@dataclass(frozen=True)
class Reading:
    """What was said on how to read the data; its fields are the options."""

    columns: Columns = None
    time_limits: TimeLimits = "keep"
    max_episode_steps: MaxEpisodeSteps = None
    dones_are: DonesAre = None
    rewards_are: RewardsAre = None
    rewards_at: RewardsAt = "same"
    at_termination: AtTermination = None
    end_reasons: EndReasons = None
    action_low: Side = None
    action_high: Side = None
    missing: Missing = "refuse"
    missing_words: MissingWords = None
    words: Words = None
    duplicates: Duplicates = "refuse"
    episode_each: EpisodeEach = None
    observe_time: ObserveTime = None
    last_rows_are: LastRowsAre = "truncation"
    download: Download = False

    def column_mapping(self) -> dict[str, str | list[str]] | None:
        """`obs=x,y` for each field, as `columns` of a `dataset:` section; a name with a comma in it is
        put in double quotes, and a field without names is none of the file's."""
        found: dict[str, str | list[str]] = {}
        for entry in self.columns or ():
            field, _, names = (part.strip() for part in entry.partition("="))
            parts = split_at_commas(names)
            if not field or not all(parts) or not (parts or entry.rstrip().endswith("=")):
                raise ConfigError(f"--columns {entry}: must name a field and its columns, such as obs=x,y")
            if field in found:
                raise ConfigError(f"--columns {entry}: {field} is given twice")
            found[field] = parts[0] if len(parts) == 1 else parts
        return found or None

    def reasons(self) -> dict[str, Any] | None:
        """`crash=termination` for each text, as `end_reasons` of a `dataset:` section."""
        return _by_text("--end-reasons", self.end_reasons or (), "say what a text means, such as crash=termination")

    def added_at_termination(self) -> AddedAtTermination | None:
        """A number, or `crash=-100` for each text, as `at_termination` of a `dataset:` section."""
        given = self.at_termination or ()
        if len(given) == 1 and "=" not in given[0]:
            return _number(given[0])
        found = _by_text("--at-termination", given, "be one number, or one for each reason, such as crash=-100")
        return None if found is None else {text: _number(f"{text}={value}") for text, value in found.items()}

    def numbers_of_words(self) -> dict[str, dict[str, float]] | None:
        """`door=shut:0,open:1` for each column, as `words` of a `dataset:` section."""
        found: dict[str, dict[str, float]] = {}
        for entry in self.words or ():
            column, given = _column_of(entry)
            pairs = [[part.strip() for part in pair.rpartition(":")] for pair in split_at_commas(given)]
            if not column or not pairs or any(not sign or _as_number(number) is None for _, sign, number in pairs):
                raise ConfigError(f"--words {entry}: must give words their numbers, such as door=shut:0,open:1")
            words = [word for word, _, _ in pairs]
            twice = column if column in found else next((word for word in words if words.count(word) > 1), None)
            if twice is not None:
                raise ConfigError(f"--words {entry}: {twice} is given twice")
            found[column] = {word: float(number) for word, _, number in pairs}
        return found or None

    def table_choices(self) -> TableChoices:
        """What is said of the cells and rows of a table."""
        words = split_at_commas(self.missing_words or "")
        if self.missing_words is not None and not all(words):
            raise ConfigError(f"--missing-words {self.missing_words}: must be words with commas between, ERR,-9999")
        observed = reading_choices.checked_periods(split_at_commas(self.observe_time or ""))
        numbers = self.numbers_of_words()
        return TableChoices(self.reasons(), tuple(words), self.duplicates, numbers, self.episode_each, observed)

    def understanding(self) -> Understanding:
        """What `TransitionDataset.from_raw` is told; nothing where nothing was said."""
        said: Understanding = {}
        if self.time_limits != "keep":
            said["time_limits"] = self.time_limits
        if self.max_episode_steps is not None:
            said["max_episode_steps"] = self.max_episode_steps
        if self.dones_are is not None:
            said["dones_are"] = self.dones_are
        if self.rewards_are is not None:
            said["rewards_are"] = self.rewards_are
        if self.rewards_at != "same":
            said["rewards_at"] = self.rewards_at
        if (added := self.added_at_termination()) is not None:
            said["at_termination"] = added
        if self.last_rows_are != "truncation":
            said["last_rows_are"] = self.last_rows_are
        if self.action_low is not None:
            said["action_low"] = _side("--action-low", self.action_low)
        if self.action_high is not None:
            said["action_high"] = _side("--action-high", self.action_high)
        if self.missing != "refuse":
            said["missing"] = self.missing
        return said

    def said(self) -> dict[str, Any]:
        """All of it by the keys of a `dataset:` section, what is left as it is included."""
        table = self.table_choices()
        given = {"columns": self.column_mapping(), **self.understanding(), "end_reasons": table.end_reasons}
        return given | {
            "missing_words": list(table.missing_words),
            "duplicates": table.duplicates,
            "words": table.words,
            "episode_each": table.episode_each,
            "observe_time": list(table.observe_time),
        }

    def check_command(self, source: str, env_id: str | None) -> str:
        """The command that finds all that is wrong with the data, read as they were said to be."""
        words = ["rl-training", "data", "check", source, *([] if env_id is None else ["--env-id", env_id])]
        return shlex.join([*words, *self.options()])

    def options(self) -> list[str]:
        """What was said, as the words of a command line."""
        words = [word for entry in self.columns or () for word in ("--columns", entry)]
        words += [word for entry in self.end_reasons or () for word in ("--end-reasons", entry)]
        words += [f"--at-termination={entry}" for entry in self.at_termination or ()]
        words += [word for entry in self.words or () for word in ("--words", entry)]
        if self.missing_words is not None:
            words += ["--missing-words", self.missing_words]
        if self.duplicates != "refuse":
            words += ["--duplicates", self.duplicates]
        if self.episode_each is not None:
            words += ["--episode-each", self.episode_each]
        if self.observe_time is not None:
            words += ["--observe-time", self.observe_time]
        for name in (name for name in self.understanding() if name != "at_termination"):
            words += [f"--{name.replace('_', '-')}", str(getattr(self, name))]
        return words + ["--download"] * self.download


def reads_data(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameter `reading` is given by the options of `Reading`."""
    hints = get_type_hints(Reading, include_extras=True)
    options = {
        option.name: Parameter(
            option.name, Parameter.KEYWORD_ONLY, default=option.default, annotation=hints[option.name]
        )
        for option in fields(Reading)
    }

    @wraps(command)
    def run(**given: Any) -> None:
        reading = Reading(**{name: given.pop(name) for name in options})
        command(**given, reading=reading)

    own = signature(command, eval_str=True)
    kept = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in own.parameters.values()]
    parameters = [p for one in kept for p in (options.values() if one.name == "reading" else (one,))]
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _by_text(option: str, entries: Iterable[str], must: str) -> dict[str, str] | None:
    """`TEXT=VALUE` for each; a text may hold the sign itself."""
    found: dict[str, str] = {}
    for entry in entries:
        text, sign, value = (part.strip() for part in entry.rpartition("="))
        if not sign:
            raise ConfigError(f"{option} {entry}: must {must}")
        if text in found:
            raise ConfigError(f"{option} {entry}: {text} is given twice")
        found[text] = value
    return found or None


def _column_of(entry: str) -> tuple[str, str]:
    """The two sides of `COLUMN=…`; a column in double quotes may hold the sign itself."""
    if quoted := re.fullmatch(r'\s*"((?:[^"]|"")*)"\s*=(.*)', entry):
        return quoted[1].replace('""', '"'), quoted[2].strip()
    column, _, given = (part.strip() for part in entry.partition("="))
    return column, given


def _number(entry: str) -> float:
    number = _as_number(entry.rpartition("=")[2])
    if number is None:
        raise ConfigError(f"--at-termination {entry}: must be one number, or one for each reason, such as crash=-100")
    return number


def _as_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def split_at_commas(names: str) -> list[str]:
    """Names between commas; one in double quotes may hold commas itself."""
    try:
        return [name.strip() for name in next(csv.reader([names], skipinitialspace=True, strict=True), [])]
    except csv.Error:
        return []


def _side(option: str, text: str) -> Any:
    """One number, or a list of them."""
    try:
        values = [float(part) for part in text.strip("[] ").split(",")]
    except ValueError:
        raise ConfigError(f"{option} {text}: must be a number, or one for each action with commas between") from None
    return values[0] if len(values) == 1 else values


def words_entries(words: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """`door=shut:0,open:1` for every column, as `--words` takes it."""
    pairs = {name: [f"{word}:{str(n).removesuffix('.0')}" for word, n in own.items()] for name, own in words.items()}
    named = {column: quoted(column) if set(column) & {"=", '"'} else column for column in pairs}
    return [f"{named[column]}={joined(own)}" for column, own in pairs.items()]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def joined(names: Iterable[str]) -> str:
    """Names with commas between, one with a comma in it in double quotes."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(names)
    return text.getvalue()


def added_options(at_termination: Mapping[str, float]) -> str:
    """What is added for each reason, as a shell takes it."""
    entries = [f"{text}={value}" for text, value in at_termination.items()]
    return " ".join(f"--at-termination{'=' if e.startswith('-') else ' '}{shlex.quote(e)}" for e in entries)
