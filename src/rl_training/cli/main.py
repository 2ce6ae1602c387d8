"""The `rl-training` command. Heavy imports happen inside the commands that need them; `--help` loads no torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from rl_training import __version__
from rl_training.cli import (
    completion,
    first_steps,
    judging,
    listing,
    plain_warnings,
    standard_streams,
    system_faults,
    wrong_usage,
)
from rl_training.cli.data import data_app
from rl_training.cli.examples import complete_help, epilog
from rl_training.cli.telling import tell
from rl_training.cli.welcome import WELCOME
from rl_training.errors import DivergenceError, RLTrainingError
from rl_training.experiment.config_places import find_config
from rl_training.run_places import require_runs
from rl_training.runtime.signals import EXIT_CODES, CutOffError, ending_signals

app = typer.Typer(
    name="rl-training",
    help="Offline reinforcement learning for continuous control: train a policy from logged transitions, "
    "evaluate it, resume it, ask it for actions.",
    epilog="Where to begin: rl-training alone. Examples: rl-training COMMAND --help",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
config_app = typer.Typer(help="Show and check configurations.", epilog=epilog("config"), rich_markup_mode=None)
app.add_typer(config_app, name="config")
app.add_typer(data_app, name="data")

DIVERGED = 3  # exit code of a run of which every seed diverged

Config = Annotated[
    str,
    typer.Option(
        "--config",
        "-c",
        help="Packaged configuration (cql/pendulum) or a YAML path.",
        autocompletion=completion.configs,
    ),
]
ConfigName = Annotated[
    str, typer.Argument(help="Packaged configuration or YAML path.", autocompletion=completion.configs)
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override any value: --set algo_kwargs.cql_alpha=10 (repeat for more)."),
]
Run = Annotated[
    Path,
    typer.Argument(
        help="A run, by its directory or its name in runs/, or a checkpoint inside one.", autocompletion=completion.runs
    ),
]
Which = Annotated[str, typer.Option(help="Which checkpoint of a run: last, best or an update's number.")]
BENCHED = ("td3_bc", "iql", "cql")
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress display.")]
Track = Annotated[
    list[str] | None,
    typer.Option(
        "--track",
        help="Also tell tensorboard, wandb, mlflow or trackio (repeat for more).",
        autocompletion=completion.trackers,
    ),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="A line for every metric record, evaluation and checkpoint.")
]


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        tell(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        tell(WELCOME.format(version=__version__), nl=False)


@config_app.callback(invoke_without_command=True)
def _help_alone(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        tell(context.get_help())


app.command("help")(first_steps.help_)
app.command()(first_steps.doctor)
app.command()(first_steps.init)


@app.command()
def train(
    config: Config,
    set_: Overrides = None,
    seed: Annotated[list[int] | None, typer.Option(min=0, help="Seed; repeat it for several members.")] = None,
    total_timesteps: Annotated[int | None, typer.Option(min=1, help="Budget, if not the configuration's.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the run directory.")] = None,
    runs_dir: Annotated[str | None, typer.Option(help="Folder for run directories.")] = None,
    resume: Annotated[
        str | None,
        typer.Option(help="auto: continue the newest run of this configuration, if there is one."),
    ] = None,
    track: Track = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done; write nothing.")] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Train a policy as a configuration says."""
    find_config(config)
    from rl_training.cli import training

    options = {"seed": seed or None, "total_timesteps": total_timesteps, "name": name, "runs_dir": runs_dir}
    given = {key: value for key, value in options.items() if value is not None}
    talk = training.Talk.of(quiet=quiet, verbose=verbose)
    training.train(config, set_ or (), given, resume, track or (), dry_run=dry_run, talk=talk)


@app.command()
def resume(
    run: Annotated[
        Path, typer.Argument(help="A run, by its directory or its name in runs/.", autocompletion=completion.runs)
    ],
    total_timesteps: Annotated[int | None, typer.Option(min=1, help="A larger budget than the run's own.")] = None,
    dataset: Annotated[Path | None, typer.Option(help="The run's data file, where it has moved.")] = None,
    which: Annotated[
        str, typer.Option(help="Checkpoint to go on from: latest, best or step-N; later ones are set aside.")
    ] = "latest",
    track: Track = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Continue a run from a checkpoint, exactly as if it had never stopped."""
    require_runs(run)
    from rl_training.cli import training

    training.resume(
        run, total_timesteps, dataset, which, track or (), talk=training.Talk.of(quiet=quiet, verbose=verbose)
    )


@app.command()
def finetune(
    run: Run,
    steps: Annotated[int, typer.Option(min=1, help="Steps of the environment to go on for.")],
    env_id: Annotated[str | None, typer.Option(help="The environment, if it is not the run's own.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the new run directory.")] = None,
    set_: Overrides = None,
    track: Track = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Go on online from a trained policy, with its data in every batch (--set online.prior=buffer: in one buffer)."""
    from rl_training.cli import training

    talk = training.Talk.of(quiet=quiet, verbose=verbose)
    training.finetune(run, steps, env_id, name, set_ or (), track or (), talk=talk)


@app.command()
def demo(quiet: Quiet = False, verbose: Verbose = False) -> None:
    """Train CQL on Pendulum-v1 from an embedded dataset, evaluate it, write a report, and say where everything lies."""
    from rl_training.cli import training

    training.demo(talk=training.Talk.of(quiet=quiet, verbose=verbose))


app.command()(judging.evaluate)
app.command()(judging.report)


@app.command()
def predict(
    run: Run,
    obs: Annotated[
        list[str] | None,
        typer.Option(help="An observation: 0.1,0.2,0.3 or by name, speed=0.1,angle=0.2 (repeat for more)."),
    ] = None,
    obs_file: Annotated[Path | None, typer.Option(help="Observations by row: .npy, .npz (obs), .csv or .json.")] = None,
    which: Which = "last",
    seed: Annotated[int | None, typer.Option(min=0, help="Whose policy, in a run of several seeds.")] = None,
    stochastic: Annotated[
        bool, typer.Option("--stochastic", help="Sample actions instead of the mode, the same every time.")
    ] = False,
) -> None:
    """Print the policy's action for each observation, one JSON list per line."""
    require_runs(run)
    from rl_training.cli import using

    using.predict(run, obs or [], obs_file, which, seed, stochastic=stochastic)


@app.command()
def export(
    run: Run,
    format_: Annotated[
        str | None, typer.Option("--format", help="onnx or torch (a .pt2); not given, the file's ending says.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write; the run's name here, if not given.")
    ] = None,
    which: Which = "last",
    seed: Annotated[int | None, typer.Option(min=0, help="Whose policy, in a run of several seeds.")] = None,
    member: Annotated[
        str | None, typer.Option(help="The same by position, from 0; all: one file per seed, FILE-seed-N.")
    ] = None,
    stochastic: Annotated[
        bool, typer.Option("--stochastic", help="A sample instead of the mode; the file then takes noise as well.")
    ] = False,
    batch: Annotated[int | None, typer.Option(min=1, help="A fixed number of rows; not given, any number.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file and its card if they exist.")] = False,
) -> None:
    """Write the policy as one file, transforms inside, that runs without this package, and a JSON card beside it."""
    require_runs(run)
    from rl_training.cli import shipping

    options = {"deterministic": not stochastic, "batch": batch, "force": force}
    shipping.export(run, which, format_, output, seed, member, options)


@app.command()
def push(
    run: Run,
    repo: Annotated[str, typer.Option(help="Repository on the Hugging Face hub: user/name.")],
    which: Which = "last",
    seed: Annotated[int | None, typer.Option(min=0, help="Whose policy, in a run of several seeds.")] = None,
    private: Annotated[bool, typer.Option("--private", help="Only you see a repository made by this.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write the folder, upload nothing.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Keep the folder here; it must not exist.")
    ] = None,
) -> None:
    """Upload the policy as ONNX with a model card, its JSON card and configuration to the Hugging Face hub."""
    from rl_training.cli import shipping

    shipping.push(run, repo, which, seed, output, private=private, dry_run=dry_run)


@app.command()
def bench(
    algo: Annotated[
        list[str] | None,
        typer.Option(help=f"Algorithm ({', '.join(BENCHED)}); repeat it for more.", autocompletion=completion.algos),
    ] = None,
    members: Annotated[list[int] | None, typer.Option(help="Seeds in one process (1); repeat it for more.")] = None,
    seconds: Annotated[float, typer.Option(help="Seconds of measuring for each, besides its start.")] = 3.0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    engine: Annotated[str, typer.Option(help="eager, compiled, or auto: what a long run uses here.")] = "auto",
    precision: Annotated[str, typer.Option(help="auto, fp32, tf32 or bf16.")] = "auto",
    kernels: Annotated[str, typer.Option(help="auto, plain or fused.")] = "auto",
    batch_size: Annotated[int, typer.Option(help="Transitions per update; 0 is the usual (256; ReBRAC 1024).")] = 0,
    width: Annotated[int, typer.Option(help="Units of each hidden layer.")] = 256,
    obs_dim: Annotated[int, typer.Option(help="Numbers in an observation.")] = 17,
    act_dim: Annotated[int, typer.Option(help="Numbers in an action.")] = 6,
    rows: Annotated[int, typer.Option(help="Transitions in the (made-up) data.")] = 1_000_000,
    output: Annotated[Path | None, typer.Option(help="Also write the figures into this file, as JSON.")] = None,
) -> None:
    """Measure how many updates per second this machine does, what compiling costs, and how much memory it takes."""
    from rl_training.cli import benchmarking

    sizes = {"batch_size": batch_size, "width": width, "obs_dim": obs_dim, "act_dim": act_dim, "rows": rows}
    options = {"device": device, "engine": engine, "precision": precision, "kernels": kernels, **sizes}
    benchmarking.bench(algo or BENCHED, members or (1,), options, seconds, output)


app.command()(listing.algos)
app.command()(listing.configs)
app.command()(listing.datasets)
app.command()(listing.runs)


@config_app.command("list")
def config_list() -> None:
    """List the packaged configurations."""
    from rl_training.experiment.assets import packaged_configs

    tell("\n".join(packaged_configs()))


@config_app.command("presets")
def config_presets(
    algo: Annotated[
        str, typer.Argument(help="An algorithm, as listed by `rl-training algos`.", autocompletion=completion.algos)
    ],
) -> None:
    """List an algorithm's presets and whose settings they are."""
    from rl_training.runtime.presets import presets

    found = presets(algo)
    width = max(map(len, found), default=0)
    tell("\n".join(f"{name:<{width}}  {entry['source']}" for name, entry in found.items()) or f"{algo} has none")


@config_app.command("show")
def config_show(name: ConfigName, set_: Overrides = None) -> None:
    """Print a complete configuration, every default filled in."""
    from rl_training.experiment.config import read_config, to_yaml

    tell(to_yaml(read_config(name, set_ or ())), nl=False)


@config_app.command("validate")
def config_validate(name: ConfigName, set_: Overrides = None) -> None:
    """Check a configuration, the columns it names, their first cells and texts; one line and exit code 2 if wrong."""
    from rl_training.cli.data_of_config import check_files
    from rl_training.experiment.config import read_config

    config = read_config(name, set_ or ())
    notes = check_files(name, config.dataset)
    tell(f"{name}: valid ({config.algo}, {config.env_id or 'no environment'})")
    for note in notes:
        tell(f"note: {note}", err=True)


complete_help(app)
complete_help(config_app, "config ")
complete_help(data_app, "data ")

# What typer raises for a wrong command line is click's: of the installed click or of a copy inside typer, by version.
_UsageError: Any = typer.BadParameter.__mro__[1]


def main() -> None:
    """The command: users' mistakes become one line on standard error and exit code 2."""
    standard_streams.prepare()
    try:
        with plain_warnings.told_plainly(), ending_signals() as signalled:
            try:
                code = _run()
            except Exception:
                if not signalled:  # else it is what a library has made of the signal
                    raise
        standard_streams.finish()
        code = signalled[0] if signalled else code
    except MemoryError:  # in what comes after a command
        code = _say(system_faults.OUT_OF_MEMORY)
    except KeyboardInterrupt as error:
        code = error.exit_code if isinstance(error, CutOffError) else EXIT_CODES["SIGINT"]
    except OSError as error:
        if not standard_streams.is_lost(error):
            raise
        is_closed = isinstance(error, BrokenPipeError)  # its reader has seen enough
        code = 1 if is_closed else _say(f"standard output: cannot be written ({error.strerror})")
    sys.exit(code)


def _run() -> int:
    """The command's exit code."""
    try:
        Path.cwd()  # the libraries below end the process without one
    except OSError as error:
        return _say(f"the folder this is called in is not there any more ({error.strerror}); change to another")
    try:
        return app(prog_name="rl-training", standalone_mode=False) or 0
    except DivergenceError as error:
        return _say(error, DIVERGED)
    except RLTrainingError as error:
        return _say(error)
    except _UsageError as error:
        return _say(wrong_usage.told(error, sys.argv[1:]))
    except typer.Abort:
        return EXIT_CODES["SIGINT"]
    except SystemExit as ended:
        if not isinstance(ended.code, int):
            raise
        return ended.code
    except (OSError, ImportError, MemoryError, RuntimeError, SystemError) as error:
        if (told := system_faults.told(error)) is None:
            raise
        return _say(told)


def _say(mistake: object, code: int = 2) -> int:
    """Messages quote users and libraries, who may write more than one line."""
    tell(f"error: {' '.join(line.strip() for line in str(mistake).splitlines())}", err=True)
    return code


if __name__ == "__main__":
    main()
