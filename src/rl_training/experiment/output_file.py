"""The file of text that an option names: whole or not there at all, and nothing else replaced unasked."""

from __future__ import annotations

import os
from pathlib import Path

from rl_training.data.formats.atomic import new_file
from rl_training.errors import ConfigError
from rl_training.paths import folder_fault
from rl_training.wording import taken


def require_place(output: Path, *, force: bool, option: str = "--output") -> None:
    """Refuse, before any work, a place where no file can be, and what exists, unless it may be replaced."""
    named = f"{option} {output}"
    if output.is_dir():
        raise ConfigError(f"{named}: is a folder; name a file")
    if (fault := folder_fault(output.parent)) is not None:
        raise ConfigError(f"{named}: {fault}")
    if os.path.lexists(output) and not force:
        raise ConfigError(_taken(named))
    if output.exists() and not output.is_file():
        raise ConfigError(f"{named}: is a device or a pipe, which no file replaces; name a file")


def write_output(output: Path, text: str, *, force: bool, option: str = "--output") -> None:
    """Write it, unless something lies there by now that is not to be replaced."""
    named = f"{option} {output}"
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with new_file(output, replace=force) as temporary:
            temporary.write_text(text, encoding="utf-8", errors="replace")
    except FileExistsError:
        raise ConfigError(_taken(named)) from None
    except OSError as error:
        raise ConfigError(f"{named}: cannot be written ({error.strerror or error})") from None


def _taken(named: str) -> str:
    return taken(named, "--force replaces it, -o FILE writes another")
