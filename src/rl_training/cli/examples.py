"""Examples and short descriptions of the commands, for `--help`; a test holds every example to the options."""

from __future__ import annotations

import typer

from rl_training.cli.given_options import GivenOnce

# By command: a line to type, and what it does.
EXAMPLES: dict[str, dict[str, str]] = {
    "help": {
        "rl-training help train": "options and examples of one",
        "rl-training help data split": "of one in a group",
    },
    "doctor": {
        "rl-training doctor": "everything, in about ten seconds",
        "rl-training doctor --quick --json": "for a script",
    },
    "init": {
        "rl-training init log.csv": "writes config.yaml",
        "rl-training init robot.hdf5 -o robot.yaml --algo cql": "another name, another algorithm",
        "rl-training init log.npz --env-id Pendulum-v1 --force": "evaluated there while it trains",
    },
    "train": {
        "rl-training train -c cql/pendulum": "a packaged configuration",
        "rl-training train -c my.yaml --dry-run": "what would be done",
        "rl-training train -c my.yaml --seed 0 --seed 1": "two seeds at once",
        "rl-training train -c iql/pendulum --set algo_kwargs.beta=1": "another value",
        "rl-training train -c my.yaml --track tensorboard": "curves in TensorBoard, too",
    },
    "resume": {
        "rl-training resume my-run": "as if it had never stopped",
        "rl-training resume my-run --total-timesteps 200000": "for longer",
    },
    "finetune": {
        "rl-training finetune my-run --steps 10000": "data in half of every batch",
        "rl-training finetune my-run --steps 10000 --set online.prior=buffer": "in one buffer",
        "rl-training finetune my-run --steps 10000 --track tensorboard": "curves in TensorBoard, too",
    },
    "evaluate": {
        "rl-training evaluate my-run --episodes 100": "the last weights",
        "rl-training evaluate my-run --which best --json": "the best, for a script",
        "rl-training evaluate run-a run-b --episodes 50": "how probably one is better",
        "rl-training evaluate my-run --offline": "no simulator: from the data alone",
        "rl-training evaluate my-run --offline --data other.npz": "on episodes not trained on",
        "rl-training evaluate my-run --video episode.gif": "film an episode",
    },
    "report": {
        "rl-training report my-run": "writes report.html",
        "rl-training report run-a run-b -o compared.html": "side by side",
        "rl-training report my-run --held-out other.npz --force": "TD error on new episodes",
    },
    "predict": {
        "rl-training predict my-run --obs 1,0,0": "one observation",
        "rl-training predict my-run --obs-file obs.npy": "many",
    },
    "export": {
        "rl-training export my-run": "my-run.onnx and my-run.onnx.json",
        "rl-training export my-run --which best -o policy.pt2": "for torch",
        "rl-training export my-run --member all -o policy.onnx": "one file per seed",
    },
    "push": {
        "rl-training push my-run --repo me/hopper --dry-run -o for-the-hub": "look first",
        "rl-training push my-run --repo me/hopper --which best": "upload",
    },
    "demo": {"rl-training demo": "in about a minute"},
    "bench": {
        "rl-training bench --algo iql --members 1 --members 8": "one seed, and eight at once",
    },
    "algos": {
        "rl-training algos": "all",
        "rl-training algos cql": "parameters, presets and paper of one",
    },
    "configs": {"rl-training configs --json": "for a script"},
    "datasets": {
        "rl-training datasets": "here, and Minari's",
        "rl-training datasets ~/logs --json": "in another folder, for a script",
    },
    "runs": {
        "rl-training runs": "all, the newest first",
        "rl-training runs --algo iql --sort score --limit 5": "the five best",
        "rl-training runs --compare run-a run-b": "two side by side",
    },
    "config": {
        "rl-training config show cql/pendulum": "every default filled in",
        "rl-training config validate my.yaml": "exit code 2 on a mistake",
    },
    "data": {
        "rl-training data check -c config.yaml": "what is in it, what is wrong, and where",
        "rl-training data split -c config.yaml -o train.npz aside.npz": "read as it says",
    },
    "config show": {"rl-training config show cql/pendulum": "every default filled in"},
    "config validate": {"rl-training config validate my.yaml": "exit code 2 on a mistake"},
    "config list": {"rl-training config list": "their names alone"},
    "config presets": {"rl-training config presets rebrac": "and whose settings they are"},
    "data check": {
        "rl-training data check log.npz": "what is in it, what is wrong, and where",
        "rl-training data check robot.csv --columns obs=x,y,z --columns actions=u": "other names",
        "rl-training data check -c config.yaml": "read as a configuration says",
        "rl-training data check log.npz --env-id Pendulum-v1 --html report.html": "as a page",
    },
    "data info": {"rl-training data info log.npz": "the short facts"},
    "data convert": {
        "rl-training data convert log.csv converted.npz": "by the names' endings",
        "rl-training data convert hopper.hdf5 hopper/": "a folder of columns, for large data",
    },
    "data split": {
        "rl-training data split log.csv --held-out 0.25 -o train.npz aside.npz": "a quarter of the episodes",
        "rl-training data split -c config.yaml -o train.csv aside.csv": "read as a configuration says",
    },
    "data collect": {
        "rl-training data collect --env-id Pendulum-v1 --policy random --steps 40000 -o random.npz": "at random",
        "rl-training data collect --env-id Pendulum-v1 --policy my-run --episodes 50 -o good.npz": "a policy's",
    },
}
# In the list of commands, where the first sentence of the help would be cut.
SHORT: dict[str, str] = {
    "help": "Show the help of a command.",
    "doctor": "Check this machine, and say what to do about each fault.",
    "init": "Look at a file and write a commented configuration for it.",
    "resume": "Continue a run exactly as if it had never stopped.",
    "finetune": "Go on online from a trained policy, with its data.",
    "demo": "Train CQL on embedded data, evaluate, report: a minute.",
    "evaluate": "Score policies in an environment, or from data alone.",
    "report": "Write a page on runs: curves, scores, diagnostics, data.",
    "predict": "Print the policy's action for each observation.",
    "export": "Write the policy as one ONNX or torch file.",
    "push": "Upload the policy to the Hugging Face hub.",
    "bench": "Measure updates per second and memory on this machine.",
    "algos": "List the algorithms; with a name, its parameters.",
    "configs": "List the packaged configurations.",
    "datasets": "List the data in a folder, and Minari's on this machine.",
    "runs": "List, filter and compare runs.",
    "data check": "Examine a dataset: what is wrong, and where.",
    "data info": "Show what a dataset holds.",
    "data convert": "Write a dataset in another format.",
    "data split": "Set whole episodes aside to judge a policy by.",
    "data collect": "Record a dataset in an environment.",
    "config validate": "Check a configuration.",
    "config presets": "List an algorithm's presets.",
}


def complete_help(app: typer.Typer, prefix: str = "") -> None:
    """Give every command of an app its examples, its short description and options that are given once."""
    for command in app.registered_commands:
        command.cls = GivenOnce
        name = prefix + (command.name or getattr(command.callback, "__name__", "").replace("_", "-"))
        command.short_help = SHORT.get(name)
        command.epilog = epilog(name)


def epilog(name: str) -> str | None:
    """Examples as lines that click leaves as they are; what one does stands above it where both need a line."""
    lines = ["Examples:"]
    for line, what in EXAMPLES.get(name, {}).items():
        short = len(line) + len(what) + 8 <= 80
        lines += [f"  {line}  # {what}"] if short else [f"  # {what}", f"  {line}"]
    return "\b\n" + "\n".join(lines) if len(lines) > 1 else None
