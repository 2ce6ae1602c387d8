"""The `rl-training` command, and `python -m rl_training`: how its process ends where a signal ends it."""

from __future__ import annotations

import os
import sys

from rl_training.runtime.signals import EXIT_CODES, end_while_loading


def main() -> None:
    """Entry point."""
    end_while_loading()
    _wait_briefly()
    from rl_training.cli.main import main as command

    try:
        command()
    except SystemExit as ended:
        if isinstance(ended.code, int) and ended.code in EXIT_CODES.values():
            _end_promptly(ended.code)
        raise


def _wait_briefly() -> None:
    """Have OpenMP's threads give up their core soon where they wait for each other, unless the user says otherwise:
    those that go on asking keep the core from the one they wait for as soon as another program runs. Numbers are the
    same. It is read when torch is loaded."""
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = "1000"


def _end_promptly(code: int) -> None:
    """All is written, and whoever sent the signal may not wait until torch and its compilers have taken their leave."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
