"""`rl-training data check` and `data info`: what is in a dataset, and what is wrong with it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy.typing as npt
from rich.console import Console
from rich.text import Text

from rl_training.cli.hints_as_options import in_options
from rl_training.cli.reading_options import Reading, added_options
from rl_training.cli.telling import tell
from rl_training.data import formats
from rl_training.data.doctor import Finding, Report, describe, examine
from rl_training.data.doctor.facts_in_words import fact_lines
from rl_training.data.doctor.findings import LEVELS, spelt_out
from rl_training.data.doctor.observation_checks import ObsBounds
from rl_training.data.doctor.page import report_page
from rl_training.data.doctor.text import Line, finding_lines, labelled, note_lines, report_lines, transform_lines
from rl_training.data.doctor.wording import sentence
from rl_training.data.few_episodes import ONE_EPISODE
from rl_training.data.formats import RawData
from rl_training.data.formats.columns import packed_copies
from rl_training.data.formats.peek import peek
from rl_training.data.formats.places import expand, locate
from rl_training.data.formats.siblings import alike_beside
from rl_training.data.formats.whole_columns import counting, rare_texts
from rl_training.data.reference_returns import reference_returns
from rl_training.data.settling import settle
from rl_training.data.termination_rewards import NAME as AT_TERMINATION
from rl_training.environments import Spaces, env_spaces, make_env, observation_bounds
from rl_training.errors import ConfigError, DataError, EnvironmentUnsupportedError, RLTrainingError
from rl_training.experiment.output_file import require_place, write_output
from rl_training.harmless import escaped, for_page
from rl_training.paths import in_shell, resolved
from rl_training.plain_console import plain_console

_SAMPLE = 1_000  # rows that show which columns hold little text
_WIDEST = 100  # columns of text that are still easy to read
_STYLES = {"title": "bold", "error": "bold red", "warning": "bold yellow", "note": "bold", "good": "bold green"}
_STYLES |= {"faint": "dim", "heading": "bold"}


def check(
    path: Path, env_id: str | None, reading: Reading, *, as_json: bool, html: Path | None, of_config: bool = False
) -> int:
    """`rl-training data check`; the exit code. of_config: advice is told in the words of a configuration."""
    if html is not None:
        _require_page(html, path)
    with told_as_json(path, as_json):
        raw = read_source(str(path), reading, of_config=of_config)
        spaces, bounds, findings = _environment(env_id, raw.env_id)
        texts, unread = _rare_texts(str(path), raw), partial(_unread, str(path), raw)
        report = examine(raw, spaces, env_id, obs_bounds=bounds, also=findings, texts=texts, unread=unread)
        report = replace(report, findings=(*report.findings, *_of_little(report, path)))
        if not of_config:
            report = replace(report, findings=tuple(_in_options(finding) for finding in report.findings))
    if html is not None:
        write_output(html, for_page(report_page(report, path.name)), force=True, option="--html")
    if as_json:
        tell(json.dumps({"path": str(path), **report.to_json()}, allow_nan=False))
    else:
        _show(report, path.name)
        if html is not None:
            tell(f"page: {html}")
    return 0 if report.ok else 1


def _require_page(html: Path, data: Path) -> None:
    """Refuse, before any work, a place for the page where none can be, and the data themselves."""
    require_place(html, force=True, option="--html")
    place = expand(data)
    inside = place.is_dir() and resolved(place) in resolved(html).parents
    if html.exists() and place.exists() and (inside or html.samefile(place)):
        raise ConfigError(f"--html {html}: is the data, which the page would replace; name another file")


def _of_little(report: Report, path: Path) -> list[Finding]:
    """Notes on data that are a single episode, or one file of many."""
    beside = alike_beside(expand(path))
    notes = {"data.one_episode": ONE_EPISODE if report.facts.episodes == 1 else None, "data.beside": beside}
    return [Finding("note", code, "data", sentence(note), "") for code, note in notes.items() if note is not None]


def _rare_texts(source: str, raw: RawData) -> dict[str, dict[int, str]]:
    """The texts of a table's columns that hold one in a few rows, unless a column already tells why episodes end."""
    place = expand(locate(source))
    if raw.end_texts is not None or formats.recognise(place) not in ("csv", "parquet"):
        return {}
    first = peek(place, _SAMPLE, ends=False)
    return rare_texts(place, first.kind, first.columns)


def _unread(source: str, raw: RawData) -> dict[str, npt.NDArray[Any]]:
    """The numbers of a table's columns that nobody reads and that count rows, by the look of the first."""
    place = expand(locate(source))
    if formats.recognise(place) not in ("csv", "parquet"):
        return {}
    first, used = peek(place, _SAMPLE, ends=False), {name for columns in raw.columns.values() for name, _ in columns}
    return counting(place, first.kind, {name: cells for name, cells in first.columns.items() if name not in used})


def info(path: Path, env_id: str | None, reading: Reading, *, as_json: bool) -> None:
    """`rl-training data info`."""
    place = expand(path)
    if any(formats.is_there(place / name) for name in ("run.json", "manifest.json")):
        if given := [*reading.options(), *([] if env_id is None else ["--env-id"])]:
            raise ConfigError(f"{given[0]}: is for data, and {path} is a run; leave it out")
        _show_run(place, as_json=as_json)
        return
    with told_as_json(path, as_json):
        raw = read_source(str(path), reading, takes_config=False)
        try:
            spaces = None if env_id is None else _environment(env_id, raw.env_id)[0]
            facts, transforms, doubts, said = describe(raw, env_id, spaces)
        except DataError as error:
            command = reading.check_command(str(path), env_id)
            raise DataError(f"{path}: {in_options(str(error))} (all that is wrong: {command})") from error
    found, notes = [_in_options(finding) for finding in doubts], [in_options(note) for note in said]
    notes += packed_copies(place)
    if as_json:
        about = {"warnings": [finding.to_json() for finding in found], "notes": notes}
        tell(json.dumps({"path": str(path), **facts.to_json(), **about, "transforms": transforms.to_json()}))
        return
    console, width = _console()
    lines = [Line(path.name, "title"), *labelled(fact_lines(facts, brief=True), width)]
    if facts.fingerprint:
        lines += labelled([("fingerprint", facts.fingerprint)], width)
    for level in LEVELS:
        lines += finding_lines([finding for finding in found if finding.level == level], width)
    lines += note_lines(notes, width)
    options = "transforms: normalise_observations, reward_range_scaling"
    lines += [Line(""), Line(f"What training would scale them by, if asked to ({options})", "heading")]
    _print(console, [*lines, *transform_lines(transforms.to_json(), width)])


def _show_run(place: Path, *, as_json: bool) -> None:
    """The transforms that a run's last checkpoint, or the checkpoint itself, holds."""
    from rl_training.runtime.run_directory import load_any

    checkpoint = load_any(place)
    transforms = checkpoint.transforms.to_json()
    if as_json:
        tell(json.dumps({"path": str(place), "algo": checkpoint.config.algo, "transforms": transforms}))
        return
    console, width = _console()
    title = f"{place.name}: {checkpoint.config.algo} on {checkpoint.config.env_id or 'data alone'}"
    lines = [Line(title, "title"), Line("Transforms in its last checkpoint", "heading")]
    _print(console, [*lines, *transform_lines(transforms, width)])


def _in_options(finding: Finding) -> Finding:
    finding = replace(finding, what=in_options(finding.what))
    if not finding.advised:
        return replace(finding, advice=in_options(finding.advice))
    before, _, after = finding.advice.partition(spelt_out(finding.advised))
    said = added_options(finding.advised[AT_TERMINATION])
    return replace(finding, advice=in_options(before) + said + in_options(after))


@contextmanager
def told_as_json(path: Path, as_json: bool) -> Iterator[None]:
    """Whoever asked for JSON gets it, also where there is nothing but an error to tell; the line for people follows."""
    try:
        yield
    except RLTrainingError as error:
        if as_json:
            tell(json.dumps({"path": str(path), "ok": False, "error": str(error)}))
        raise


def read_source(source: str, reading: Reading, *, of_config: bool = False, takes_config: bool = True) -> RawData:
    """The arrays of a file or folder, or of `minari:ID`, their flags settled where the user said how; a mistake is told
    with the name the user gave. of_config: and with the keys of a configuration rather than options. takes_config:
    whether the command has -c."""
    mapping, choices, said = reading.column_mapping(), reading.table_choices(), reading.understanding()
    if source.endswith((".yaml", ".yml")) and formats.is_there(expand(Path(source))):
        command = f"rl-training data check -c {in_shell(source)}"
        raise ConfigError(f"{source}: is a configuration, not data; `{command}` checks the data it names")
    if reading.download and not source.startswith(formats.MINARI_PREFIX):
        raise ConfigError(f"--download: is for a Minari dataset (minari:ID), and {source} is a path; leave it out")
    try:
        place = locate(source, download=reading.download)
    except DataError as error:
        raise DataError(str(error) if of_config else in_options(str(error))) from error
    try:
        raw = formats.read(place, mapping, choices)
        return settle(raw, **said) if said else raw
    except DataError as error:
        lost = mapping is None and str(error).startswith("lacks ")
        way = _way_to_columns(source, takes_config=takes_config) if lost else ""
        raise DataError(f"{source}: {str(error) if of_config else in_options(str(error))}{way}") from error


def _way_to_columns(source: str, *, takes_config: bool) -> str:
    """How else to say which columns hold what: in a configuration, which may be there."""
    from rl_training.cli.config_of_file import config_of  # which imports torch

    if takes_config and (config := config_of(Path(source))) is not None:
        return f", or give -c {in_shell(config)}, which says so, in place of the file"
    way = ", or give -c CONFIG, a configuration that says so" if takes_config else ""
    return f"{way}; `rl-training init {in_shell(source)}` proposes all of them"


def _environment(asked: str | None, recorded: str | None) -> tuple[Spaces | None, ObsBounds | None, list[Finding]]:
    """Spaces of the environment that was asked for or that the file names, as far as they can be had."""
    env_id = asked or recorded
    if env_id is None:
        return None, None, []
    import gymnasium  # noqa: F401  (it sets filters of its own, which must not come after ours)

    advice = "Action bounds and observations are then not held to it."
    try:
        if asked is None:
            _require_registered(env_id)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the environment's version, which is the data's
            env = make_env(env_id)
    except EnvironmentUnsupportedError as error:
        if asked is not None and reference_returns(asked) is None:
            raise
        return None, None, [Finding("note", "env.unavailable", "data", sentence(str(error)), advice)]
    try:
        bounds = observation_bounds(env)
        return env_spaces(env), bounds, []
    except EnvironmentUnsupportedError as error:
        return (
            None,
            bounds,
            [Finding("error", "env.unsupported", "data", sentence(str(error)), "It cannot be trained on.")],
        )
    finally:
        env.close()


def _require_registered(env_id: str) -> None:
    """A file may name an environment, but not have a module imported: `module:Name-v0` would."""
    import gymnasium

    if env_id not in gymnasium.registry:
        raise EnvironmentUnsupportedError(f"the file names the environment {env_id!r}, which is not installed here")


def _console() -> tuple[Console, int]:
    console = plain_console()
    return console, min(console.width, _WIDEST) if console.is_terminal else _WIDEST


def _show(report: Report, title: str) -> None:
    console, width = _console()
    plain = not (console.encoding or "").lower().startswith("utf")
    _print(console, report_lines(report, title, width, bar="#" if plain else "█"))


def _print(console: Console, lines: Sequence[Line]) -> None:
    for line in lines:
        console.print(Text(escaped(line.text), style=_STYLES.get(line.kind, "")), soft_wrap=True)
