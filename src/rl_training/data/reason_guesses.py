"""Which column says why episodes ended, and what its texts mean, guessed from names and words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.fields import END_REASONS
from rl_training.data.flags import SHORTEST_TIME_LIMIT
from rl_training.data.formats.end_reasons import ONGOING, texts_in
from rl_training.data.guess_words import folded
from rl_training.data.guesses import Guess
from rl_training.data.value_looks import at_ends, mostly_empty, together, without_usual
from rl_training.reading_choices import Ending

_NAMED_SO = {
    "reason", "reasons", "why", "outcome", "cause", "ending", "grund", "ursache", "raison", "motif", "motivo", "causa",
    "razon", "abbruchgrund", "endgrund", "endegrund", "abbruchursache",
}  # fmt: skip
_PERHAPS = {
    "end", "ended", "stop", "stopped", "exit", "status", "event", "result", "done", "termination", "terminated",
    "terminal", "finish", "finished", "over", "verdict", "state", "flag",
    "ende", "schluss", "ergebnis", "abbruch", "ereignis", "zustand", "fin", "resultat", "resultado", "estado",
}  # fmt: skip
_MOST_TEXTS = 30
_MOSTLY = 0.5  # of the rows in which an episode goes on, where the name alone does not tell
_SHORT = 4  # letters
_ENDINGS = {"", "s", "es", "ed", "d", "en", "ing", "ure", "ures", "er", "ner", "out"}
_LINKS = {
    "connection",
    "signal",
    "link",
    "communication",
    "contact",
    "data",
    "verbindung",
}
_LOST = {"lost", "verloren"}
_NEGATIONS = {"no", "not", "non", "without", "kein", "keine", "nicht", "ohne", "pas", "sans", "sin"}
# Broken off, and a limit: as long as nothing else is said, from outside; of what was broken off for a cause of its own,
# or of a limit of something else than time, the user has to say it.
_BROKEN_OFF = ("abort", "abbruch", "abgebroch", "interrupt", "unterbroch", "limit", "max", "maximum", "maximale")
_OF_TIME = (
    "time", "step", "zeit", "schritt", "episode", "timeout", "tiempo", "temps", "delai", "horizon", "deadline",
    "duration", "dauer",
)  # fmt: skip
_PEOPLE = ("operator", "user", "manual", "bediener", "manuell")
# What stands between the words that tell something: `by` is a collision as well as an operator.
_BETWEEN = {
    "by", "due", "to", "of", "on", "at", "for", "the", "was", "is", "has", "been", "reached", "hit",
    "durch", "von", "wegen", "am", "wurde", "ist", "erreicht",
}  # fmt: skip
_NEARLY_ALL = 0.8  # where it tells nothing
_ENDED_SO, _ALWAYS = 3, 0.9  # episodes with a reason, and their share at one length, that make it a time limit
# Words that say that something is over, but not why.
_ENDED_SOMEHOW = ("complete", "done", "finish", "fertig", "beendet", "abgeschlossen")
# Beginnings of words. Of a text with words of two kinds the first kind counts: `time limit reached` is a time limit.
_WORDS: dict[Ending, tuple[str, ...]] = {
    "truncation": (
        "timeout", "time", "limit", "trunc", "cut", "max", "maximum", "maximale", "abort", "interrupt", "cancel",
        "quit", "disconnect", "deadline", "horizon", "shutdown", "manual", "operator", "transfer", "censor",
        "expired", "left", "paused", "reset", "maintenance", "shift", "zeit", "zeitlimit", "zeitueber", "abgelaufen",
        "unterbroch", "abbruch", "abgebroch", "manuell", "bediener", "wartung", "abgeschnitten",
        "delai", "ecoule", "tiempo", "agotado", "interrump",
    ),
    "termination": (
        "goal", "success", "succeed", "reach", "win", "won", "lose", "lost", "loss", "crash", "colli", "fell", "fall",
        "fail", "dead", "die", "death", "decease", "kill", "solve", "complete", "done", "finish", "terminat",
        "terminal", "trip", "overflow", "fault", "error", "overheat", "alarm", "discharg", "recover", "cured",
        "landed", "landing", "victory", "defeat", "draw", "gameover", "explo", "broke", "stuck", "target", "arriv",
        "ziel", "erreicht", "fehler", "absturz", "abgestuerzt", "gestuerzt", "kollision",
        "ausfall", "stoerung", "erfolg", "gewonnen", "verloren", "fertig", "beendet", "abgeschlossen", "ueberhitz",
        "notaus", "grenzwert", "ueberschritt", "ueberschreit", "exceed", "violat", "emergency", "unsafe", "defaut",
        "echec", "succes", "atteint", "exito", "fallo", "choque", "objetivo", "alcanzad",
    ),
    "ongoing": (
        "running", "run", "ok", "none", "no", "active", "ongoing", "continu", "progress", "normal", "play", "alive",
        "nan", "null", "na", "step", "false", "ready",
        "laeuft", "aktiv", "weiter", "kein", "keine", "nein", "betrieb", "encours", "enmarcha",
    ),
}  # fmt: skip


# Of those that terminate, what nobody wants; beginnings of words, too.
_FAILURES = (
    "crash", "colli", "fell", "fall", "fail", "dead", "die", "death", "decease", "kill", "lose", "lost", "loss", "trip",
    "overflow", "fault", "error", "overheat", "alarm", "defeat", "explod", "explos", "broke", "stuck", "exceed",
    "violat", "unsafe", "tripp", "emergency", "hard", "abort", "damage", "burn", "leak", "bad", "wrong", "defect",
    "invalid", "critical",
    "fehler", "absturz", "abgestuerzt", "gestuerzt", "kollision", "ausfall", "stoerung", "verloren", "ueberhitz",
    "notaus", "ueberschritt", "ueberschreit", "abbruch", "abgebroch", "schaden", "defaut", "echec", "fallo", "choque",
)  # fmt: skip


# What follows makes some of them harmless: an article before its noun, a journey, a number to be kept low.
_FREE = ("free", "frei")
_HARMLESS_BEFORE = {"trip": {"end", "ended", "ends", "over"}, "loss": {"target", "goal"}}
_AS_PLANNED = ("complete", "success", "finish", "done", "ok")


# What everybody wants; beginnings of words, too.
_SUCCESSES = (
    "arriv", "done", "success", "succeed", "finish", "complete", "goal", "ok", "okay", "solve", "win", "won", "landed",
    "victory", "reach", "target", "cured", "recover", "deliver", "normal", "good",
    "ziel", "erreicht", "erfolg", "gewonnen", "fertig", "angekommen", "succes", "atteint", "exito", "llegad",
    "alcanzad",
)  # fmt: skip


def example_of_failure(texts: Iterable[str]) -> str | None:
    """Of reasons for a termination the one to show as a failure, if any may be one: such as sounds like it, else the
    first that does not sound like what was wanted."""
    given = list(texts)
    failed = [text for text in given if is_failure(text)]
    return next(iter([*failed, *(text for text in given if not _is_success(text))]), None)


def _is_success(text: str) -> bool:
    words = _words(text)
    return _NEGATIONS.isdisjoint(words) and any(_among(word, _SUCCESSES) for word in words)


def is_failure(text: str) -> bool:
    """Whether a reason sounds like one that nobody wants; `no fault` and `trip complete` do not."""
    words = _words(text)
    is_fine = not _NEGATIONS.isdisjoint(words) or any(_among(word, _AS_PLANNED) for word in words)
    return not is_fine and any(map(_tells_failure, words, [*words[1:], ""]))


def _tells_failure(word: str, following: str) -> bool:
    """Whether a word is one of failing, before the one that follows it, if any does."""
    if word == "die" and following:  # German: the
        return False
    if following in _FREE or following in _HARMLESS_BEFORE.get(word, ()) or word.endswith((*_FREE, "less", "los")):
        return False
    return _among(word, _FAILURES)


def meaning_of(text: str) -> Ending | None:
    """What a text probably says of its row; none where no word tells."""
    words = _words(text)
    if not words:
        return ONGOING if text.strip() in ("", "-", "0", "--") else None
    if "n/a" in text.casefold():
        return ONGOING
    if len(words) > 1 and not _NEGATIONS.isdisjoint(words):
        return None  # `no fault` goes on and `no fuel` does not: for the user to say
    if not _LOST.isdisjoint(words) and not _LINKS.isdisjoint(words):
        return None
    joined = "".join(words)
    for ending, beginnings in _WORDS.items():
        if joined in beginnings or any(_among(word, beginnings) for word in words):
            return _unless_it_had_a_cause(words) if ending == "truncation" else ending
    return None


def _unless_it_had_a_cause(words: Sequence[str]) -> Ending | None:
    """Truncation, but for words that tell of another cause, known or not, beside `aborted` or `limit`."""
    beside = [word for word in words if not _among(word, _BROKEN_OFF)]
    if len(beside) == len(words):
        return "truncation"
    telling = [word for word in beside if word not in _BETWEEN]
    of_time_or_people = any(_among(word, (*_OF_TIME, *_PEOPLE)) for word in telling)
    if of_time_or_people or all(_among(word, _WORDS["truncation"]) for word in telling):
        return "truncation"
    return "termination" if meaning_of(" ".join(telling)) == "termination" else None


@dataclass(frozen=True)
class ReasonGuess:
    """What a text says of its rows; why: what speaks for it beside its words, or against it."""

    rows: int
    meaning: Ending | None
    why: str = ""


def guess_reasons(
    counts: Mapping[str, int],
    lengths: Mapping[str, Sequence[int]],
    *,
    at_ends: Container[str] = (),
    scored: bool = False,
) -> dict[str, ReasonGuess]:
    """What each text means, by its words and by the lengths of the episodes that were seen to end with it.

    counts: the rows of each text. at_ends: texts that stand in last rows alone. scored: whether episodes have their
    reward there, for the whole of what was done.
    """
    longest = max((length for several in lengths.values() for length in several), default=0)
    guesses = {
        text: _guessed(text, rows, lengths.get(text, ()), longest, ends=text in at_ends)
        for text, rows in counts.items()
    }
    usual = max(counts, key=lambda text: counts[text], default="")
    elsewhere = lengths.keys() - {usual} and len(lengths.get(usual, ())) <= 1  # where the looked-at rows stop
    if usual and guesses[usual].meaning is None and elsewhere:
        guesses[usual] = ReasonGuess(counts[usual], ONGOING, "most rows say so, and no episode ends with it")
    if not scored:
        return guesses
    why = "the episode is scored there, so that it is over"
    unsaid = [text for text in guesses if text in lengths and meaning_of(text) is None]
    return guesses | {text: ReasonGuess(counts[text], "termination", why) for text in unsaid}


def _guessed(text: str, rows: int, lengths: Sequence[int], longest: int, *, ends: bool) -> ReasonGuess:
    """ends: it stands in last rows of episodes alone, whatever its words."""
    meaning = meaning_of(text)
    if ends and meaning == ONGOING:
        meaning = "termination" if _is_success(text) else None
    if meaning in (ONGOING, "truncation"):
        return ReasonGuess(rows, meaning)
    at_longest = sum(length == longest for length in lengths)
    if longest >= SHORTEST_TIME_LIMIT and at_longest >= max(_ENDED_SO, _ALWAYS * len(lengths)):
        always = "all" if at_longest == len(lengths) else f"{at_longest} of {len(lengths)} looked at"
        return ReasonGuess(rows, "truncation", f"{always} after {longest:,} rows, as by a time limit")
    telling = [word for word in _words(text) if not _among(word, _ENDED_SOMEHOW)]
    if meaning is not None and (not telling or meaning_of(" ".join(telling)) is None):
        return ReasonGuess(rows, meaning, "in doubt: a time that is up would be truncation")
    return ReasonGuess(rows, meaning)


def only_at_ends(cells: npt.NDArray[Any], ids: npt.NDArray[Any] | None) -> set[str]:
    """Texts that the last rows of several episodes have, and no other of the rows that were looked at, `[K]`."""
    if ids is None:
        return set()
    cells, ids = together(cells, ids)
    texts = texts_in(cells)
    last = np.r_[ids[1:] != ids[:-1], True][: len(texts)].tolist()
    ends = Counter(text for text, is_last in zip(texts, last, strict=True) if is_last)
    everywhere = Counter(texts)
    return {text for text, count in ends.items() if text and 1 < count == everywhere[text]}


def lengths_by_reason(
    cells: npt.NDArray[Any], ids: npt.NDArray[Any] | None, repeated: npt.NDArray[np.bool_]
) -> dict[str, list[int]]:
    """By the text of its last row, the lengths of the episodes in some rows, `[K]`.

    ids: of the rows; without them every text that may end an episode does. repeated: rows that are not counted.
    """
    if ids is not None:
        cells, ids = together(cells, ids)
    texts = texts_in(cells)
    if ids is None:
        last = np.array([meaning_of(text) != ONGOING for text in texts], dtype=np.bool_)
    else:
        last = np.r_[ids[1:] != ids[:-1], True][: len(texts)]
    counted = np.cumsum(~repeated) if len(repeated) == len(texts) else np.arange(1, len(texts) + 1)
    lengths: dict[str, list[int]] = {}
    before = 0
    for row in np.flatnonzero(last).tolist():
        lengths.setdefault(texts[row], []).append(int(counted[row]) - before)
        before = int(counted[row])
    return lengths


def _among(word: str, beginnings: Iterable[str]) -> bool:
    return any(_begins(word, beginning) for beginning in beginnings)


def _begins(word: str, beginning: str) -> bool:
    """Short beginnings take no more than an ending: `failed` is a failure, a `window` no win."""
    if len(beginning) > _SHORT:
        return word.startswith(beginning)
    return word.startswith(beginning) and word.removeprefix(beginning) in _ENDINGS


def column_of_reasons(columns: Mapping[str, npt.NDArray[Any]], words_of: Mapping[str, Iterable[str]]) -> str | None:
    """The one column of text that says why episodes ended; `words_of` each name."""
    found = {True: [], False: []}  # type: dict[bool, list[str]]
    for name, values in columns.items():
        words = set(words_of[name])
        if values.ndim == 1 and values.dtype.kind in "OU" and _may_be(values, words):
            found[bool(words & _NAMED_SO)].append(name)
    chosen = found[True] or found[False]
    return chosen[0] if len(chosen) == 1 else None


def by_rows(columns: Mapping[str, npt.NDArray[Any]], episodes: npt.NDArray[Any] | None) -> Guess | None:
    """A column of text that is filled in the last rows of episodes alone, or says something else there than in the
    others; without the ids of episodes, one that is mostly empty."""
    if episodes is not None:
        said = {name: without_usual(values) for name, values in columns.items()}
        found = [name for name, cells in said.items() if mostly_empty(cells) and at_ends(cells, episodes)]
        why = "its texts stand in last rows of episodes only"
        return Guess(END_REASONS, (found[0],), why) if len(found) == 1 else None
    texts = tuple((name,) for name, values in columns.items() if mostly_empty(values))
    why = "no name tells, but these hold text in a few rows, as reasons of ends do"
    return Guess(END_REASONS, (), why, texts) if texts else None


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+", folded(text).replace("_", " "))


def _may_be(values: npt.NDArray[Any], words: set[str]) -> bool:
    texts = texts_in(values)
    kinds = set(texts)
    meanings = {text: meaning_of(text) for text in kinds}
    if len(kinds) > _MOST_TEXTS or not any(meaning != ONGOING for meaning in meanings.values()):
        return False
    if words & _NAMED_SO:
        return True
    ended = np.array([meanings[text] != ONGOING for text in texts])
    if 2 * int((ended[1:] & ended[:-1]).sum()) >= int(ended.sum()):
        return False  # a fault that lasts for rows ends nothing in each of them
    going_on = 1 - np.mean(ended)
    if words & _PERHAPS:
        return bool(going_on >= _MOSTLY and any(meaning not in (None, ONGOING) for meaning in meanings.values()))
    return bool(going_on >= _NEARLY_ALL and None not in meanings.values())
