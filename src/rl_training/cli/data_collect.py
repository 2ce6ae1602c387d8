"""`rl-training data collect`: its options. What it does is in `collecting.py`, which imports more."""

from __future__ import annotations

from typing import Annotated, Literal

import typer


def collect(
    env_id: Annotated[str, typer.Option(help="The environment to act in.")],
    policy: Annotated[str, typer.Option(help="random, scripted (Pendulum-v1), or a trained run or checkpoint.")],
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="What to write: log.npz, .hdf5, .csv, (with pyarrow) .parquet, log/ or minari:ID."
        ),
    ],
    steps: Annotated[int | None, typer.Option(min=1, help="Transitions to record; the last episode is cut.")] = None,
    episodes: Annotated[int | None, typer.Option(min=1, help="Episodes to record, within --steps if given.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of the resets and of all noise.")] = 0,
    n_envs: Annotated[int, typer.Option(min=1, help="Environments at once; the data are the same for any.")] = 1,
    noise: Annotated[float, typer.Option(min=0.0, help="Gaussian noise on actions, in halves of their range.")] = 0.0,
    epsilon: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of uniform actions mixed in.")] = 0.0,
    stochastic: Annotated[bool, typer.Option("--stochastic", help="Sample a run's actions, not the mode.")] = False,
    which: Annotated[str | None, typer.Option(help="A run's checkpoint: last (default), best or a number.")] = None,
    member: Annotated[int | None, typer.Option(min=0, help="Whose policy, in a run of several seeds.")] = None,
    file_format: Annotated[
        Literal["npz", "hdf5", "parquet", "csv", "columns", "minari"] | None,
        typer.Option("--format", help="The output's format, where its name does not tell it."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted collection.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress display.")] = False,
) -> None:
    """Record a dataset by acting in an environment; the same seed gives the same file."""
    from rl_training.cli.collecting import Request, collect
    from rl_training.data.formats.writers import target_of

    target = target_of(output, file_format)
    run_options = {"--stochastic": stochastic or None, "--which": which, "--member": member}
    exploration = {"noise": noise, "epsilon": epsilon}
    collect(
        Request(env_id, policy, target, steps, episodes, seed, n_envs, **exploration, run_options=run_options),
        force=force,
        resume=resume,
        quiet=quiet,
    )
