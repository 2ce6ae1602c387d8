"""Single fits among many that diverge: left out of the estimate, with a word, where they are few.

That one resample's fit runs away says something of this fit, and little of the policy: its value is none that could be
averaged. Of fits of which one in twenty does, five all stay in three estimates of four, and twenty in one of
three: without this, an estimate that is trusted would be refused for being made with more resamples. So at most one in
ten is left out, as bootstrap repeats are that did not converge; of fewer than ten none ever is. What is kept is held to
the same bounds as ever.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rl_training.experiment import statistics
from rl_training.experiment.offline_doubts import LARGEST_DRIFT, LARGEST_INTERVAL, drifts, possible, spread_of
from rl_training.runtime.fitted_evaluation import FittedValues
from rl_training.wording import amount, readable

_FAR = 6.0  # robust deviations of the fits from their median
_AS_DEVIATION = 1.4826  # times the median distance from the median, of a normal distribution its deviation


def stray_fits(fitted: FittedValues) -> list[int]:
    """The resamples with a fit that diverges, if they are few: an impossible value, or one far from those of all others
    and still on its way. One that has settled far away stays: it may be what its episodes say."""
    most = int(statistics.MOST_LEFT_OUT * len(fitted.repeats))
    columns = [column for column in range(fitted.repeats.shape[1]) if column not in fitted.gone]
    if not most or fitted.allowed[0] == fitted.allowed[1]:
        return []
    rows = [row for row in range(len(fitted.repeats)) if any(_diverges(fitted, row, column) for column in columns)]
    return rows if len(rows) <= most else []


def without_strays(fitted: FittedValues) -> FittedValues:
    """The same without them."""
    return fitted.without(stray_fits(fitted))


def _diverges(fitted: FittedValues, row: int, column: int) -> bool:
    values = fitted.repeats[:, column]
    if not possible(fitted, [*fitted.extremes[:, row, column].tolist(), float(values[row])]):
        return True
    others = np.delete(values, row)
    others = others[np.isfinite(others)]
    middle = float(np.median(others))
    usual = _AS_DEVIATION * float(np.median(np.abs(others - middle)))
    spread = spread_of(fitted)
    far = abs(float(values[row]) - middle) > max(_FAR * usual, LARGEST_INTERVAL * spread)
    return far and float(drifts(fitted, column)[row]) > LARGEST_DRIFT * spread


def caution_of_strays(fitted: FittedValues, rows: Sequence[int], seeds: Sequence[int]) -> list[str]:
    """What was left out of how many. seeds: of the policies, in the order of the columns."""
    if not rows:
        return []
    worst = []
    for column, name in enumerate([*(f"seed {seed}" for seed in seeds), "the behaviour"]):
        if column in fitted.gone or not any(_diverges(fitted, row, column) for row in rows):
            continue
        values, kept = fitted.repeats[list(rows), column], np.delete(fitted.repeats[:, column], list(rows))
        middle = float(np.median(kept))
        far = max(values.tolist(), key=lambda value: abs(value - middle) if np.isfinite(value) else np.inf)
        told = readable(far) if np.isfinite(far) else "no number"
        worst.append(f"{name}: {told}, and the others {readable(float(kept.min()))} to {readable(float(kept.max()))}")
    is_one = len(rows) == 1
    return [
        f"{len(rows):,} of {amount(len(fitted.repeats), 'resample')} {'is' if is_one else 'are'} left out, as"
        f" {'its fit diverges' if is_one else 'their fits diverge'} ({'; '.join(worst)}): the interval is that of the"
        " others, and a little too sure"
    ]
