"""The `rl-training` command, and `python -m rl_training`: how its process ends where a signal ends it."""

from __future__ import annotations

import os
import sys

from rl_training.runtime.signals import EXIT_CODES, end_while_loading


def main() -> None:
    """Entry point."""
    end_while_loading()
    from rl_training.cli.main import main as command

    try:
        command()
    except SystemExit as ended:
        if isinstance(ended.code, int) and ended.code in EXIT_CODES.values():
            _end_promptly(ended.code)
        raise


def _end_promptly(code: int) -> None:
    """All is written, and whoever sent the signal may not wait until torch and its compilers have taken their leave."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
