"""`rl-training init`: look at a file and write a configuration for it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rl_training import algorithms
from rl_training.cli.column_notes import cells_used, doubled_rows, missing_cells, unused
from rl_training.cli.config_draft import ENDS, Draft
from rl_training.cli.day_proposals import going_on, proposed_days
from rl_training.cli.draft_in_words import tell_draft
from rl_training.cli.recommendation import recommend
from rl_training.cli.switches import switches
from rl_training.cli.word_columns import columns_of_words, numbers_of
from rl_training.data.checks import column_extremes
from rl_training.data.column_names import names_of
from rl_training.data.dataset_loaders import check_spaces, infer_spaces
from rl_training.data.few_episodes import of_one_episode
from rl_training.data.fields import END_REASONS, EPISODE_IDS, FILE_NAME, STEP
from rl_training.data.formats import MINARI_PREFIX
from rl_training.data.formats.csv import HEADER_ALONE
from rl_training.data.formats.csv_misfits import repeated_header
from rl_training.data.formats.csv_text import layout_of
from rl_training.data.formats.end_reasons import ONGOING
from rl_training.data.formats.expanding import matches
from rl_training.data.formats.labels import are_rounded
from rl_training.data.formats.names import first_of, listed
from rl_training.data.formats.peek import Peek, peek
from rl_training.data.formats.places import expand, locate
from rl_training.data.formats.row_order import DROPPED
from rl_training.data.formats.siblings import alike_beside
from rl_training.data.formats.whole_columns import last_rows, rare_texts, rows_before_restarts, texts_of
from rl_training.data.guesses import Guess, Guesses
from rl_training.data.guessing import guess_fields
from rl_training.data.missing_marks import words_as_missing
from rl_training.data.missing_rows import LEFT_OUT
from rl_training.data.name_series import pattern_of
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.reason_guesses import ReasonGuess, guess_reasons, lengths_by_reason, only_at_ends
from rl_training.data.value_looks import repeats
from rl_training.environments import read_spaces
from rl_training.errors import ConfigError, DataError, EnvironmentUnsupportedError
from rl_training.experiment.config import read_config
from rl_training.experiment.output_file import require_place, write_output
from rl_training.paths import in_shell
from rl_training.reading_choices import Missing
from rl_training.validation import printable, shown
from rl_training.wording import WARNING, amount

_NO_DATA = (
    "is a configuration, and init writes one for data: rl-training init LOG.csv -o {0}; to look at what it says:"
    " rl-training config validate {0}; to train it: rl-training train -c {0}"
)
_LOOKED_THROUGH = 2**28  # bytes of a file in which the header is looked for once more
_SAMPLE = 5_000  # rows that guesses look at
_MOST_KINDS = 20  # whole numbers among actions that look like the numbers of choices
_MOST_BOUNDS = 16  # actions whose bounds are proposed
_TABLES = ("csv", "parquet")
_EXACT = ("npz", "hdf5")


def init(source: str, output: Path, algo: str | None, env_id: str | None, *, force: bool) -> None:
    """Look, guess, try to read, write, and say what to do next."""
    if algo is not None:
        algorithms.require(algo)
    if env_id is not None:
        read_spaces(env_id)
    if source.endswith((".yaml", ".yml")):
        raise ConfigError(f"{source}: {_NO_DATA.format(in_shell(source))}")
    place = locate(source)
    first = _first_look(source, place)
    _require_config(output, force=force)
    first, guesses, words = _guessed(first)
    guesses = _with_files_as_episodes(first, _with_rare_reasons(place, first, guesses))
    patterns = _patterns(guesses, first)
    guesses, worded = columns_of_words(place, first, guesses)
    reasons = _reasons(place, first, guesses)
    guesses, reasons, remarks = _without_remarks(first, guesses, reasons)
    draft = Draft(_section(source), "", guesses, patterns, (), "", recommend(None), None, "", reasons)
    draft = replace(draft, missing_words=words, words=worded, days=proposed_days(first, guesses))
    doubled = doubled_rows(first, guesses)
    draft, dataset, fault = _read(place, replace(draft, duplicates="drop" if doubled else "refuse"))
    if first.kind == "minari" and fault is not None and "columns: {obs" in fault:
        guesses = Guesses((Guess("obs", (), fault),), ())
    told = None if guesses.unclear else fault
    noted = [*first.notes, *missing_cells(first, guesses), *doubled, *_rounded_ids(place, first, guesses)]
    recommended = recommend(dataset)
    chosen_env, env_note = _environment(env_id, first, dataset, source)
    draft = replace(
        draft,
        found=_found(source, first, dataset),
        guesses=guesses,
        notes=tuple(dict.fromkeys([*noted, *_notes(dataset, told), *_beside(place, told)])),
        algo=algo or recommended.algo,
        recommended=recommended,
        env_id=chosen_env,
        env_note=env_note,
        observed=_observed(dataset, guesses, first),
        switches=switches(dataset, guesses, first, numbers_of(worded)),
        incomplete=_incomplete(place, draft, first) if dataset is None else "",
        by_position=_by_position(first),
        unused=tuple(f"{printable(name)} ({why})" for name, why in remarks.items())
        + tuple(told for told in unused(first, guesses, worded) if told.split(" (")[0] not in remarks),
        is_table=first.kind in _TABLES,
        looked_at=_looked_at(first) if dataset is None else "",
    )
    write_output(output, draft.text(str(output)), force=force)
    complete = not draft.to_fill_in and dataset is not None
    if complete:
        read_config(str(output))  # what is not accepted as it stands is a mistake that is told here
    tell_draft(draft, output, dataset if complete else None)


def _require_config(output: Path, *, force: bool) -> None:
    """Refuse a place where no configuration can be, and a name that none has."""
    require_place(output, force=force)
    if output.suffix.lower() not in (".yaml", ".yml"):
        raise ConfigError(f"--output {output}: must end in .yaml or .yml; -o {in_shell(output.with_suffix('.yaml'))}")


def _guessed(first: Peek) -> tuple[Peek, Guesses, tuple[str, ...]]:
    """What the columns may be, after words among numbers were taken for missing values; the columns so, the words."""
    guesses = _guesses(first)
    marked = words_as_missing(first.columns, [name for guess in guesses.fields for name in guess.columns])
    if not marked.words:
        return first, guesses, ()
    read = replace(first, columns=marked.columns)
    return read, _guesses(read), marked.words


def _guesses(first: Peek) -> Guesses:
    if not first.columns:
        return Guesses((), ())
    return guess_fields(first.columns, exact_names=first.kind in _EXACT, units=first.units)


def _first_look(source: str, place: Path) -> Peek:
    try:
        first = peek(place, _SAMPLE)
    except DataError as error:
        raise DataError(f"{source}: {error}") from error
    if first.rows == 0:
        raise DataError(f"{source}: {HEADER_ALONE}")
    is_small = first.kind == "csv" and place.is_file() and place.stat().st_size < _LOOKED_THROUGH
    told = None
    with suppress(DataError):  # what is no text further down may stand in a column that is not read
        told = repeated_header(place, layout_of(place)) if is_small else None
    if told is not None:  # every column would look like text
        raise DataError(f"{source}: {told}")
    return first


def _section(source: str) -> dict[str, Any]:
    if source.startswith(MINARI_PREFIX):
        return {"source": "minari", "id": source.removeprefix(MINARI_PREFIX)}
    return {"source": "file", "path": source}


def _reasons(place: Path, first: Peek, guesses: Guesses) -> dict[str, ReasonGuess]:
    """What the texts of the column that says why episodes ended mean, the most frequent first."""
    column = guesses.column_of(END_REASONS)
    if column is None:
        return {}
    ids = guesses.column_of(EPISODE_IDS)
    cells, episodes = first.columns[column], None if ids is None else first.columns[ids]
    lengths = lengths_by_reason(cells, episodes, repeats(first.columns))
    texts = texts_of(expand(place), first.kind, [column])[column]
    by_rows = sorted(texts.items(), key=lambda entry: -entry[1].rows)
    counts = {text: found.rows for text, found in by_rows}
    return guess_reasons(counts, lengths, at_ends=only_at_ends(cells, episodes), scored=guesses.scored_at_ends)


def _rounded_ids(place: Path, first: Peek, guesses: Guesses) -> list[str]:
    """A note on ids that a spreadsheet has rounded, which the reader refuses."""
    ids = guesses.column_of(EPISODE_IDS)
    if ids is None or ids == FILE_NAME or first.kind != "csv":
        return []
    try:
        texts = texts_of(expand(place), first.kind, [ids])[ids]
    except DataError:  # of another column, which may not be read
        return []
    if not are_rounded(texts):
        return []
    told = f"{printable(ids)} holds numbers that were rounded, as spreadsheets do to long ones (1.00E+03)"
    return [f"{told}, and episodes may have become one: export the column as text, before the whole is read"]


def _without_remarks(
    first: Peek, guesses: Guesses, reasons: dict[str, ReasonGuess]
) -> tuple[Guesses, dict[str, ReasonGuess], dict[str, str]]:
    """Without texts that end nothing among the reasons of ends: they are ongoing, and where all are, the column is left
    with what speaks for that."""
    on = going_on(first, guesses, reasons)
    column = guesses.column_of(END_REASONS)
    if not on or column is None:
        return guesses, reasons, {}
    if all(text in on or reason.meaning == ONGOING for text, reason in reasons.items()):
        fields = tuple(guess for guess in guesses.fields if guess.field != END_REASONS)
        left = replace(guesses, fields=fields, left=(*guesses.left, column))
        return left, {}, {column: f"text, such as {shown(next(iter(on)))}; {next(iter(on.values()))}"}
    own = {text: ReasonGuess(r.rows, ONGOING, on[text]) if text in on else r for text, r in reasons.items()}
    return guesses, own, {}


def _with_rare_reasons(place: Path, first: Peek, guesses: Guesses) -> Guesses:
    """With the column that says why episodes ended where only rows beyond those looked at have a text in it."""
    ids, step = guesses.column_of(EPISODE_IDS), guesses.column_of(STEP)
    told = {guess.field for guess in guesses.fields if guess.is_clear}
    border = ids or step
    if border is None or told & {END_REASONS, "terminations", "truncations", "dones"}:
        return guesses
    path = expand(place)
    found = {name: rows for name, rows in rare_texts(path, first.kind, first.columns).items() if name in guesses.left}
    rows_at_ends = rows_before_restarts if ids is None else last_rows
    last = rows_at_ends(path, first.kind, border) if found else set()
    at_ends = {name: rows for name, rows in found.items() if set(rows) <= last}
    if len(at_ends) != 1:
        return guesses
    ((name, rows),) = at_ends.items()
    why = f"its texts stand in last rows of episodes only, {len(rows):,} of {len(last):,}"
    left = tuple(other for other in guesses.left if other != name)
    return replace(guesses, fields=(*guesses.fields, Guess(END_REASONS, (name,), why)), left=left)


def _with_files_as_episodes(first: Peek, guesses: Guesses) -> Guesses:
    """With each file of a folder as an episode, where nothing else tells where one ends."""
    told = [guess for guess in guesses.fields if guess.field in ENDS]
    if first.files == 1 or FILE_NAME in first.columns or any(guess.is_clear or guess.candidates for guess in told):
        return guesses
    why = "nothing else marks ends: each file is an episode, and cut at its end unless terminations names a flag"
    others = tuple(guess for guess in guesses.fields if guess not in told)
    return replace(guesses, fields=(*others, Guess(EPISODE_IDS, (FILE_NAME,), why)))


def _incomplete(place: Path, draft: Draft, first: Peek) -> str:
    """`3 of 100 rows`: those that lack a value, all of them where the rest can be read, else those looked at."""
    dataset, _ = _try(place, draft, missing="drop")
    left_out = [] if dataset is None else [note for note in dataset.notes if LEFT_OUT in note]
    if left_out:
        return left_out[0].removeprefix(WARNING).partition(LEFT_OUT)[0]
    missing = list(cells_used(first, draft.guesses).values())
    if not missing or len({len(lacks) for lacks in missing}) != 1:
        return ""
    rows = len(missing[0])
    among = amount(rows, "row") if rows == first.rows else first.looked_at(rows)
    return f"{int(np.any(missing, axis=0).sum()):,} of {among}"


def _looked_at(first: Peek) -> str:
    """The rows that guesses are made of, in words; nothing where they are all."""
    rows = max(map(len, first.columns.values()), default=0)
    return first.looked_at(rows) if rows and rows != first.rows else ""


def _by_position(first: Peek) -> tuple[str, ...]:
    """What columns without names begin with: that is all there is to know them by."""
    if first.has_names:
        return ()
    begins = {
        name: ", ".join(printable(str(cell)) for cell in cells[:3].tolist()) for name, cells in first.columns.items()
    }
    return tuple(f"{name}: {values}, …" for name, values in begins.items())


def _observed(dataset: TransitionDataset | None, guesses: Guesses, first: Peek) -> tuple[tuple[str, float, float], ...]:
    """Every action with its smallest and largest value, where nothing tells its bounds: of the data, or of what was
    looked at."""
    if dataset is not None:
        if dataset.act_dim > _MOST_BOUNDS or (dataset.bounds is not None and dataset.bounds.action_low is not None):
            return ()
        least, most = column_extremes(dataset.actions)
        names = [_action_name(dataset, column) for column in range(dataset.act_dim)]
        return tuple(zip(names, (least + 0.0).tolist(), (most + 0.0).tolist(), strict=True))  # no -0
    columns = next((guess.columns for guess in guesses.fields if guess.field == "actions"), ())
    values = {
        name if first.columns[name].ndim == 1 else f"{name}[{place}]": column
        for name in columns
        for place, column in enumerate(np.atleast_2d(first.columns[name].T))
    }
    plain = all(v.ndim == 1 and v.dtype.kind in "biuf" and len(v) for v in values.values())
    if not plain or len(values) > _MOST_BOUNDS:
        return ()
    return tuple((name, float(np.nanmin(v)) + 0.0, float(np.nanmax(v)) + 0.0) for name, v in values.items())


def _action_name(dataset: TransitionDataset, column: int) -> str:
    named = None if dataset.in_file is None else dataset.in_file.column_in_file("actions", column)
    return named or f"action {column}"


def _patterns(guesses: Guesses, first: Peek) -> dict[str, str]:
    found = {guess.field: pattern_of(guess.columns, first.columns, matches) for guess in guesses.fields}
    return {field: pattern for field, pattern in found.items() if pattern is not None}


def _try(place: Path, draft: Draft, missing: Missing = "refuse") -> tuple[TransitionDataset | None, str | None]:
    """The data as the draft would have them read, or why they cannot be."""
    if draft.to_fill_in:
        return None, None
    try:
        dataset = TransitionDataset.load(
            expand(place),
            columns=draft.mapping or None,
            end_reasons=draft.end_reasons or None,
            dones_are=draft.guesses.dones_are,
            missing=missing,
            missing_words=draft.missing_words,
            duplicates=draft.duplicates,
            words=numbers_of(draft.words) or None,
            rewards_are=draft.guesses.rewards_are,
            last_rows_are=draft.last_rows_are,
            episode_each=None if draft.days is None else draft.days.episode_each,
            observe_time=() if draft.days is None else draft.days.observe_time,
        )
        infer_spaces(dataset)
    except DataError as error:
        return None, str(error).removeprefix(f"{place}: ")
    return dataset, None


def _read(place: Path, draft: Draft) -> tuple[Draft, TransitionDataset | None, str | None]:
    """The same, copies dropped where rows come twice, which the reader refuses, after missing values where there are
    some."""
    dataset, fault = _try(place, draft)
    if fault is not None and DROPPED in fault + (_try(place, draft, missing="drop")[1] or ""):
        draft = replace(draft, duplicates="drop")
        dataset, fault = _try(place, draft)
    return draft, dataset, fault


def _environment(
    asked: str | None, first: Peek, dataset: TransitionDataset | None, source: str
) -> tuple[str | None, str]:
    """The environment to evaluate in, and a word on it. One that was asked for must fit; the file's own may not."""
    told = asked or (dataset.env_id if dataset is not None else first.env_id)
    nothing = "An environment to evaluate in, if there is one; training needs none."
    if told is None:
        return None, nothing
    try:
        spaces = read_spaces(told)
        if dataset is not None:
            check_spaces(dataset, spaces, source, told)
    except (EnvironmentUnsupportedError, DataError) as error:
        if asked is not None:
            raise
        return None, f"{nothing} The data name {told}, which cannot be used here: {error}."
    return told, "The environment to evaluate in" + ("." if asked else ", as the data name it.")


def _found(source: str, first: Peek, dataset: TransitionDataset | None) -> str:
    if dataset is None:
        rows = "an unknown number of rows" if first.rows is None else amount(first.rows, "row")
        return f"{source}, {first.format}, {rows}"
    episodes = f" in {amount(dataset.n_episodes, 'episode')}" if dataset.whole_episodes else ""
    widths = f"observations of {dataset.obs_dim}, actions of {dataset.act_dim}"
    return f"{source}, {first.format}, {amount(len(dataset), 'row')}{episodes}, {widths}"


def _notes(dataset: TransitionDataset | None, fault: str | None) -> tuple[str, ...]:
    if dataset is None:
        return () if fault is None else (f"the data cannot be read so: {fault}",)
    notes = [note for note in dataset.notes if not note.startswith("columns not used") and " from " not in note]
    notes += [*_carried(dataset), *of_one_episode(dataset)]
    kinds = {float(value) for value in dataset.actions[:_SAMPLE].ravel()[: 100 * _SAMPLE]}
    if len(kinds) <= _MOST_KINDS and all(value.is_integer() for value in kinds):
        notes.append(
            f"actions take {amount(len(kinds), 'whole value')} only; numbers of choices cannot be learned here"
        )
    return tuple(notes)


def _beside(place: Path, told: str | None) -> list[str]:
    """A note on other files like the one, unless it was told already."""
    note = alike_beside(place)
    return [] if note is None or note in (told or "") else [note]


def _carried(dataset: TransitionDataset) -> list[str]:
    """What a file that was written by this package keeps beside its rows."""
    if dataset.provenance is None or dataset.provenance.before is None:
        return []
    fields = {"obs": dataset.obs_dim, "actions": dataset.act_dim}
    names = {field: names_of(dataset, field, width) for field, width in fields.items()}
    kept = [
        f"names of {field} ({listed(own)})" for field, own in names.items() if own and own[0][: len(field)] != field
    ]
    bounds = dataset.bounds
    if bounds is not None and bounds.action_low is not None and bounds.action_high is not None:
        pairs = [f"{low:g} to {high:g}" for low, high in zip(bounds.action_low, bounds.action_high, strict=True)]
        kept.append(f"bounds of actions ({first_of(pairs)})")
    return [f"the file keeps {', '.join(kept)}"] if kept else []
