"""Learning curves of the online algorithms on Pendulum-v1: do SAC and TD3 solve it, and what do prior data buy RLPD?

    python benchmarks/online_curves.py [--only sac] [--prior scripted] [--prior log.npz] [--seeds 5] [--draw]

Two questions, one curve per entry of `METHODS`:

* `sac` and `td3` are the packaged configurations, as they are. Solved means a mean return above -200 over twenty
  episodes, for every seed, with the last weights.
* `rlpd` is the packaged configuration given six thousand steps, once for every `--prior` (the packaged scripted data,
  or an .npz file). Its controls learn without prior data, with the same networks, learning rates, batch size and first
  random steps: `sac_single` takes one update per step, `sac_many` as many as RLPD. `rlpd_no_data` is RLPD itself with
  nothing from the data in its batches: its actor steps once per environment step, where `sac_many`'s does at every
  update. What `rlpd` is better by than the last two is due to the data, not to more updates.

All seeds of a curve train together in one process and are evaluated on the same episodes, which training never sees;
the last weights are scored on twenty others. Raw returns of every episode, complete configurations, versions and the
machine go to benchmarks/results/online_curves.json; a curve that is run again replaces its old self there and the
others stay. The picture is docs/benchmarks/online_curves.png, where matplotlib is at hand; `--draw` makes it from the
stored results without training. The table is printed last.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import numpy.typing as npt
import torch

from rl_training import __version__
from rl_training.algorithms.sac import SACParams
from rl_training.experiment import manager
from rl_training.experiment.config import TrainConfig, read_config
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.evaluation import Evaluation
from rl_training.runtime.loop import Loop

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SOLVED = -200.0
FRESH_EPISODES = 50_000  # evaluation seed of the last weights' score; training's evaluations use the default, 10,000
PRIOR_STEPS = 6_000
METHODS = ("sac", "td3", "sac_single", "sac_many", "rlpd_no_data", "rlpd")
RESULTS = Path("benchmarks/results/online_curves.json")
PICTURE = Path("docs/benchmarks/online_curves.png")


# Training ---------------------------------------------------------------------------------------------------------


class Recorder(Callback):
    """Keeps the returns of every evaluation."""

    def __init__(self) -> None:
        self.evaluations: list[Evaluation] = []

    def on_evaluation(self, loop: Loop, evaluation: Evaluation) -> None:
        self.evaluations.append(evaluation)


def configuration(method: str, prior: str, common: Mapping[str, Any]) -> TrainConfig:
    """The run behind one curve; `common` holds what all of them share."""
    if method in ("sac", "td3"):
        return read_config(f"{method}/pendulum", values={"eval_interval": 500, **common})
    dataset = {"source": "scripted"} if prior == "scripted" else prior
    shared = {"total_timesteps": PRIOR_STEPS, "eval_interval": 250, **common}
    rlpd = read_config("rlpd/pendulum", values={"dataset": dataset, **shared})
    if method == "rlpd":
        return rlpd
    knobs = dict(rlpd.algo_kwargs)
    if method == "rlpd_no_data":
        return TrainConfig.parse({**rlpd.to_plain(), "algo_kwargs": {**knobs, "offline_batch_ratio": 0.0}})
    if method == "sac_single":
        knobs["gradient_updates_per_step"] = 1
    knobs = {name: value for name, value in knobs.items() if name in SACParams.model_fields}
    return TrainConfig.parse({**rlpd.to_plain(), "algo": "sac", "dataset": None, "algo_kwargs": knobs})


def train(config: TrainConfig) -> dict[str, Any]:
    """One curve: the returns of every episode, by evaluation and seed, and those of the last weights."""
    recorder = Recorder()
    began = time.perf_counter()
    result = manager.start(config, callbacks=[recorder])
    seconds = time.perf_counter() - began
    policy = manager.LoadedPolicy(result.checkpoint, result.actor)
    final = policy.evaluate(config.evaluation.episodes, seed=FRESH_EPISODES)
    dataset = result.run.describe()["dataset"] or {}
    return {
        "config": {name: value for name, value in config.to_plain().items() if name not in ("runs_dir", "name")},
        "about": about(),
        "dataset": {name: dataset[name] for name in ("transitions", "return_mean", "fingerprint") if name in dataset},
        "updates": result.progress.updates,
        "seconds": round(seconds, 1),
        "steps": [evaluation.step for evaluation in recorder.evaluations],
        "returns": [evaluation.returns.round(2).tolist() for evaluation in recorder.evaluations],
        "final_returns": final.returns.round(2).tolist(),
    }


def about() -> dict[str, Any]:
    versions = {"rl_training": __version__, "torch": torch.__version__, "gymnasium": gymnasium.__version__}
    machine = {"system": platform.system(), "processor": processor(), "threads": torch.get_num_threads()}
    return {**versions, "python": platform.python_version(), "numpy": np.__version__, **machine}


def processor() -> str:
    """Its name, which Linux tells in a file only."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


# Reading the curves -----------------------------------------------------------------------------------------------


def by_seed(curve: Mapping[str, Any]) -> npt.NDArray[np.float64]:
    """Mean return of every evaluation and seed, `[evaluations, seeds]`."""
    scores: npt.NDArray[np.float64] = np.array(curve["returns"]).mean(-1)
    return scores


def first_solved(steps: Sequence[int], scores: npt.NDArray[np.float64]) -> int | None:
    """The first evaluation above -200."""
    above = np.flatnonzero(scores > SOLVED)
    return steps[above[0]] if above.size else None


def solved_for_good(steps: Sequence[int], scores: npt.NDArray[np.float64]) -> int | None:
    """The evaluation from which on all are above -200."""
    below = np.flatnonzero(scores <= SOLVED)
    after = below[-1] + 1 if below.size else 0
    return steps[after] if after < len(steps) else None


def median(steps: Sequence[int | None]) -> float | None:
    """Of the seeds' first solved evaluations; none where fewer than half of the seeds get there."""
    middle = float(np.median([np.inf if step is None else step for step in steps]))
    return middle if np.isfinite(middle) else None


def summary(curve: Mapping[str, Any]) -> dict[str, Any]:
    """What the table says of a curve."""
    steps, scores = curve["steps"], by_seed(curve)
    each = [first_solved(steps, column) for column in scores.T]
    final = np.array(curve["final_returns"]).mean(-1)
    return {
        "mean_solved_at": first_solved(steps, scores.mean(1)),
        "each_seed_solved_at": each,
        "median_seed_solved_at": median(each),
        "every_seed_solved_at": first_solved(steps, scores.min(1)),
        "every_seed_solved_from": solved_for_good(steps, scores.min(1)),
        "final_by_seed": final.round(1).tolist(),
        "final_mean": round(float(final.mean()), 1),
        "final_std_over_seeds": round(float(final.std(ddof=1)), 1) if len(final) > 1 else 0.0,
    }


def print_table(curves: Mapping[str, Any]) -> None:
    print(
        f"\nEnvironment steps until the return is above {SOLVED:g}, and the last weights' score (mean ± std of seeds)\n"
    )
    heads = ("steps", "updates", "mean", "median seed", "every seed", "for good", "last weights", "worst seed")
    print(f"{'curve':<16} {heads[0]:>7} {heads[1]:>8}" + "".join(f"{head:>15}" for head in heads[2:]))
    for name, curve in curves.items():
        row = curve["summary"]
        stages = ("mean_solved_at", "median_seed_solved_at", "every_seed_solved_at", "every_seed_solved_from")
        counts = [row[stage] for stage in stages]
        shown = [f"{count:,.0f}" if count is not None else "never" for count in counts]
        shown += [f"{row['final_mean']:.1f} ± {row['final_std_over_seeds']:.1f}", f"{min(row['final_by_seed']):.1f}"]
        columns = "".join(f"{text:>15}" for text in shown)
        print(f"{name:<16} {curve['steps'][-1]:>7,} {curve['updates']:>8,}{columns}")


def in_order(curves: Mapping[str, Any]) -> dict[str, Any]:
    """As in `METHODS`, the priors of RLPD by name."""
    return {
        name: curves[name] for name in sorted(curves, key=lambda name: (METHODS.index(name.partition(":")[0]), name))
    }


# Drawing ----------------------------------------------------------------------------------------------------------

STYLES: dict[str, tuple[str, str, Any]] = {  # what the curve is called, its colour, its line
    "sac": ("SAC", "#0072b2", "-"),
    "td3": ("TD3", "#c04a00", (0, (5, 2))),
    "sac_single": ("SAC,\n{updates} update per step", "#0072b2", (0, (1, 1.2))),
    "sac_many": ("SAC,\n{updates} updates per step", "#a8447f", (0, (4, 1.5))),
    "rlpd_no_data": ("RLPD, its data left out,\n{updates} updates per step", "#9a6700", (0, (6, 1.5, 1, 1.5))),
    "rlpd": ("RLPD, {prior} data,\n{updates} updates per step", "#00785a", "-"),
}
MORE_PRIORS = (("#000000", (0, (8, 1.5))), ("#56707f", (0, (3, 1, 1, 1, 1, 1))))  # for RLPD's second and third data


def draw(curves: Mapping[str, Any], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, sharey=True)
    packaged = {name: curve for name, curve in curves.items() if name in ("sac", "td3")}
    compared = {name: curve for name, curve in curves.items() if name not in packaged}
    draw_panel(left, packaged, "From scratch, as packaged")
    draw_panel(right, compared, "With and without prior data: same networks, rates and start")
    left.set_ylabel("return")
    left.set_ylim(-1800, 0)
    figure.supxlabel(
        "environment steps in Pendulum-v1.  Thick: mean over seeds; thin: each seed; band: the middle half of the "
        "seeds; ● and number: step at which the mean is first above -200",
        fontsize="small",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def draw_panel(axes: Axes, curves: Mapping[str, Any], title: str) -> None:
    """Labels stand in the empty corner below the curves, the slowest curve's on top."""
    if not curves:
        return
    seeds, episodes = np.array(next(iter(curves.values()))["final_returns"]).shape
    last = max(curve["steps"][-1] for curve in curves.values())
    axes.set_title(
        f"{title}\n{seeds} seeds, {episodes} episodes per seed and evaluation", fontsize="medium", loc="left"
    )
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlim(0, last)
    axes.set_xticks(range(0, last + 1, last // 4 if last % 4000 == 0 else 1000))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.axhline(SOLVED, color="0.35", linewidth=0.9, linestyle=(0, (2, 2)))
    axes.text(last, SOLVED - 12, f"solved: {SOLVED:g}", ha="right", va="top", fontsize="small", color="0.35")
    slowest_first = sorted(curves, key=lambda name: -(curves[name]["summary"]["mean_solved_at"] or last))
    levels = [-440.0 - 220.0 * rank for rank in range(len(curves))]
    free = max(rises_through(curves[name], level) for name, level in zip(slowest_first, levels, strict=True))
    priors = [name for name in curves if name.startswith("rlpd:")]
    for rank, name in enumerate(slowest_first):
        text, colour, line = STYLES[name.partition(":")[0]]
        if name in priors[1:]:
            colour, line = MORE_PRIORS[(priors.index(name) - 1) % len(MORE_PRIORS)]
        draw_curve(axes, curves[name], colour, line)
        updates = curves[name]["config"]["algo_kwargs"]["gradient_updates_per_step"]
        text = text.format(prior=name.partition(":")[2].replace("_", " "), updates=updates)
        label_curve(axes, curves[name], text, colour, (free + 0.08 * last, levels[rank]))


def draw_curve(axes: Axes, curve: Mapping[str, Any], colour: str, line: Any) -> None:
    steps, scores = curve["steps"], by_seed(curve)
    low, high = np.quantile(scores, (0.25, 0.75), axis=1)
    axes.plot(steps, scores, color=colour, linewidth=0.5, alpha=0.35)
    axes.fill_between(steps, low, high, color=colour, alpha=0.14, linewidth=0)
    axes.plot(steps, scores.mean(1), color=colour, linewidth=2.0, linestyle=line)
    solved = curve["summary"]["mean_solved_at"]
    if solved is not None:
        axes.plot(solved, scores.mean(1)[steps.index(solved)], "o", color=colour, markersize=6, zorder=4)


def rises_through(curve: Mapping[str, Any], level: float) -> float:
    """The step at which the mean last rises through `level`; the end where it never gets there."""
    steps, mean = curve["steps"], by_seed(curve).mean(1)
    below = int(np.flatnonzero(np.append(-np.inf, mean) < level)[-1])  # the evaluation after the last one below
    if below in (0, len(steps)):
        return float(steps[min(below, len(steps) - 1)])
    return float(np.interp(level, mean[below - 1 : below + 1], steps[below - 1 : below + 1]))


def label_curve(axes: Axes, curve: Mapping[str, Any], text: str, colour: str, place: tuple[float, float]) -> None:
    """The curve's name and when it solves the task, with a line to the curve."""
    solved = curve["summary"]["mean_solved_at"]
    axes.annotate(
        text if solved is None else f"{text}: {solved:,}",
        xy=(rises_through(curve, place[1]), place[1]),
        xytext=place,
        color=colour,
        va="center",
        fontsize="small",
        fontweight="bold",
        arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.8, "shrinkB": 0},
    )


# The command ------------------------------------------------------------------------------------------------------


def main() -> None:
    options = parse_options()
    curves = json.loads(options.output.read_text())["curves"] if options.output.is_file() else {}
    curves = {name: {**curve, "summary": summary(curve)} for name, curve in curves.items()}
    common = {"seed": list(range(options.seeds)), "evaluation": {"episodes": options.episodes}}
    for method in () if options.draw else options.only or METHODS:
        for prior in options.prior or ["scripted"]:
            name = f"rlpd:{Path(prior).stem}" if method == "rlpd" else method
            with tempfile.TemporaryDirectory() as runs_dir:
                curve = train(configuration(method, prior, {**common, "runs_dir": runs_dir}))
            curves[name] = {"summary": summary(curve), **curve}
            print(f"{name}: {curve['updates']:,} updates in {curve['seconds']:.0f} s", flush=True)
            options.output.parent.mkdir(parents=True, exist_ok=True)
            options.output.write_text(as_json(in_order(curves)))
            if method != "rlpd":
                break  # prior data make no difference to it
    if importlib.util.find_spec("matplotlib") is None:
        print("no picture: matplotlib is missing")
    else:
        draw(in_order(curves), options.picture)
    print_table(in_order(curves))


def as_json(curves: Mapping[str, Any]) -> str:
    """One line for each part of each curve."""
    parts = {
        name: ",\n".join(f"   {json.dumps(key)}: {json.dumps(value)}" for key, value in curve.items())
        for name, curve in curves.items()
    }
    inner = ",\n".join(f"  {json.dumps(name)}: {{\n{text}\n  }}" for name, text in parts.items())
    return f'{{"solved": {SOLVED}, "curves": {{\n{inner}\n}}}}\n'


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=METHODS, help="run these curves only; may be repeated")
    parser.add_argument("--prior", action="append", help="RLPD's data: scripted, or an .npz file; may be repeated")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=20, help="episodes per seed and evaluation")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--picture", type=Path, default=PICTURE)
    parser.add_argument("--draw", action="store_true", help="train nothing: picture and table of the stored results")
    return parser.parse_args()


if __name__ == "__main__":
    main()
