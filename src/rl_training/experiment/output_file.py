"""The file of text that `--output` names: whole or not there at all, and nothing else replaced unasked."""

from __future__ import annotations

import os
from pathlib import Path

from rl_training.data.formats.atomic import new_file
from rl_training.errors import ConfigError
from rl_training.wording import taken


def require_free(output: Path, *, force: bool) -> None:
    """Refuse what exists, unless it may be replaced."""
    if os.path.lexists(output) and not force:
        raise ConfigError(_taken(output))


def write_output(output: Path, text: str, *, force: bool) -> None:
    """Write it, unless something lies there by now that is not to be replaced."""
    try:
        with new_file(output, replace=force) as temporary:
            temporary.write_text(text, encoding="utf-8", errors="replace")
    except FileExistsError:
        raise ConfigError(_taken(output)) from None
    except FileNotFoundError:
        raise ConfigError(f"--output {output}: no folder {output.parent} to write into; make it first") from None
    except OSError as error:
        raise ConfigError(f"--output {output}: cannot be written ({error.strerror or error})") from None


def _taken(output: Path) -> str:
    return taken(f"--output {output}", "--force replaces it, -o FILE writes another")
