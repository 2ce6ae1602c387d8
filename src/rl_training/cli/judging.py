"""`rl-training evaluate` and `report`: their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rl_training.cli import completion
from rl_training.cli.given_options import refuse
from rl_training.run_places import require_runs

Runs = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN [RUN...]",
        help="Runs, each by its directory or its name in runs/.",
        autocompletion=completion.runs,
    ),
]

Forget = Annotated[
    bool, typer.Option("--forget", help="With --offline: drop the run's stored estimates, or those on --data.")
]
EPISODES = 10  # of each seed, in an environment


def evaluate(
    runs: Runs,
    episodes: Annotated[int | None, typer.Option(min=1, help="Episodes per seed.", show_default=str(EPISODES))] = None,
    which: Annotated[
        str, typer.Option(help="Which checkpoint of a run: last, best (which flatters) or an update's number.")
    ] = "last",
    seeds: Annotated[
        list[str] | None,
        typer.Option(metavar="SEED,SEED", help="Only these seeds' policies: 0,1,2. All, if not given."),
    ] = None,
    env_id: Annotated[str | None, typer.Option(help="Another environment than the run's.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="First episode's seed.")] = None,
    stochastic: Annotated[bool, typer.Option("--stochastic", help="Sample actions instead of the mode.")] = False,
    video: Annotated[
        Path | None, typer.Option(help="Film the first episode, of the seed that export takes, into this .gif or .mp4.")
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Without an environment: fitted Q evaluation on logged episodes.")
    ] = False,
    data: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="With --offline: other episodes than the run's own, a file or minari:ID."),
    ] = None,
    updates: Annotated[
        int | None,
        typer.Option(
            min=10, help="With --offline: updates of each fit; if not given, more by itself.", show_default="5000"
        ),
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=2, max=64, help="With --offline: resamples of the episodes.", show_default="5")
    ] = None,
    gamma: Annotated[float | None, typer.Option(help="With --offline: the discount, if not the run's own.")] = None,
    forget: Forget = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Score trained policies over whole episodes, on the raw reward: interquartile mean, interval, normalised score.

    Several runs in one environment are compared: how probably one is better than the other. Without an environment,
    --offline estimates the discounted value from the data, beside the behaviour's, and says when not to trust it.
    """
    require_runs(*runs)
    from rl_training.cli import evaluating

    asked = evaluating.Asked(episodes or EPISODES, which, seeds, env_id, seed, stochastic, video)
    if offline:
        of_episodes = {"--episodes": episodes, "--env-id": env_id, "--seed": seed, "--video": video}
        why = "plays episodes in an environment, and --offline has none; leave out one of them"
        refuse(of_episodes, why)
        from rl_training.cli import evaluating_offline, forgetting, next_estimates

        wanted = next_estimates.AskedOffline(data, updates, repeats, gamma, which, asked.members, stochastic)
        if forget:
            forgetting.forget(runs, wanted, as_json=as_json)
        else:
            evaluating_offline.evaluate(runs, wanted, as_json=as_json)
        return
    of_fits = {"--data": data, "--updates": updates, "--repeats": repeats, "--gamma": gamma, "--forget": forget or None}
    refuse(of_fits, "is an option of --offline; add it")
    evaluating.evaluate(runs, asked, as_json=as_json)


def report(
    runs: Runs,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    held_out: Annotated[
        str | None,
        typer.Option(
            metavar="DATA", help="Episodes not trained on, for the TD error: a file or minari:ID, read as the run's."
        ),
    ] = None,
    which: Annotated[
        str | None,
        typer.Option(
            help="Which checkpoint the diagnostics look into: last, best or an update's number.", show_default="last"
        ),
    ] = None,
    no_data: Annotated[
        bool, typer.Option("--no-data", help="Open no datasets and checkpoints: no histograms, no diagnostics; fast.")
    ] = False,
    title: Annotated[str | None, typer.Option(help="The page's title.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the page if it exists.")] = False,
) -> None:
    """Write one page on runs that opens anywhere, offline: curves, scores with intervals, diagnostics, data, settings.

    A run may be still running, interrupted, diverged or damaged: the page says so, and shows what there is.
    """
    if no_data:
        refuse({"--which": which}, "needs the checkpoint, which --no-data leaves closed; choose one of them")
    from rl_training.cli import reporting

    reporting.report(runs, output, held_out, which or "last", no_data=no_data, title=title, force=force)
