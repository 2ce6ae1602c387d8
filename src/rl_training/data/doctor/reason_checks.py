"""Why episodes ended, against what their ends earn: failures that nothing tells from the rest."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from rl_training.data.doctor.findings import Finding, spelt_out
from rl_training.data.doctor.subject import Subject
from rl_training.data.doctor.wording import listed, round_up
from rl_training.data.formats.raw import RawData
from rl_training.data.reason_guesses import is_failure
from rl_training.data.termination_rewards import NAME as AT_TERMINATION
from rl_training.validation import printable
from rl_training.wording import amount

_STANDARD_ERRORS = 2.5  # of the difference of two means, that are no chance


def check_failures(raw: RawData, subject: Subject) -> Iterator[Finding]:
    """Terminations for several reasons, some of which sound like failures, where the last reward is alike in all."""
    if raw.end_texts is None or subject.rewards is None or subject.terminations is None or not subject.whole_episodes:
        return
    of: dict[str, list[int]] = {}  # last rows by the text there
    for row in subject.ends[subject.terminations[subject.ends]].tolist():
        if text := raw.end_text(row):
            of.setdefault(text, []).append(row)
    failed = [text for text in of if is_failure(text)]
    others = [row for text, rows in of.items() if text not in failed for row in rows]
    if not failed or not others:
        return
    alike = [text for text in failed if not is_worse(subject.rewards[of[text]], subject.rewards[others])]
    if not alike:
        return
    rest = [text for text in of if text not in failed]
    noun = "cost" if raw.negated else "reward"
    named, besides = (listed(printable(text) for text in texts) for texts in (alike, rest))
    count = sum(len(of[text]) for text in alike)
    what = (
        f"{amount(count, 'episode')} terminate{'s' * (count == 1)} with {named}, by the name a failure, and the {noun}"
        f" there is no worse than with {besides}: for the algorithm, failing is as good."
    )
    returns = subject.returns
    size = round_up(max(1.0, float(np.abs(returns).mean()))) if returns is not None and len(returns) else 100.0
    cost = float(f"{size if raw.negated else -size:g}")
    advised = {AT_TERMINATION: dict.fromkeys(alike, int(cost) if cost.is_integer() else cost)}
    advice = (
        f"Say what failing costs besides, `{spelt_out(advised)}`; the number is what an episode comes to on"
        " average, to be replaced by what a failure costs you. Leave it so if the name misleads."
    )
    place = subject.place(of[alike[0]][0])
    yield Finding("warning", "rewards.ends-alike", "rewards", what, advice, count, place, advised)


def is_worse(failed: npt.NDArray[np.float32], others: npt.NDArray[np.float32]) -> bool:
    """Whether the last rewards of failures are lower on average, by more than chance makes them. The scatter of a
    single one is taken from the others."""
    groups = failed.astype(np.float64), others.astype(np.float64)
    means = [float(values.mean()) for values in groups]
    variances = [float(values.var(ddof=1)) if len(values) > 1 else None for values in groups]
    known = [variance for variance in variances if variance is not None]
    spread = [max(known, default=0.0) if variance is None else variance for variance in variances]
    error = math.sqrt(sum(variance / len(values) for variance, values in zip(spread, groups, strict=True)))
    return means[1] - means[0] > max(_STANDARD_ERRORS * error, 1e-6 * abs(means[1]))
