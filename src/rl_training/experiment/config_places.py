"""Where configurations lie: packaged ones by name, others by path. No torch is needed to look for them."""

from __future__ import annotations

from pathlib import Path

from rl_training.errors import ConfigError, closest, did_you_mean
from rl_training.experiment.assets import ASSETS, packaged_configs
from rl_training.paths import OF_DATA, in_shell
from rl_training.run_places import DESCRIPTION, OWN_CONFIG, RUNS_DIR, is_run
from rl_training.validation import shortened

_OF_CONFIGS = (".yaml", ".yml")


def find_config(name: str) -> Path:
    """The file a name or a path stands for."""
    try:
        path = Path(name).expanduser()
        exists, is_odd = path.is_file(), path.exists() and not path.is_file()
    except (OSError, RuntimeError) as error:  # a name too long, a folder that may not be read, no such user's home
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"config: {shortened(name)} cannot be looked for ({reason})") from None
    if exists and path.suffix.lower() in OF_DATA:
        command = f"rl-training init {in_shell(name)}"
        raise ConfigError(f"config: {name} is data, not a configuration; `{command}` writes one for it")
    if exists:
        return path
    if is_odd and (path.suffix in _OF_CONFIGS or not path.is_dir()):
        raise ConfigError(f"config: {name} is {'a folder' if path.is_dir() else 'no plain file'}; name a YAML file")
    if (run := next((place for place in (path, Path(RUNS_DIR, name)) if _is_run(place)), None)) is not None:
        another = f"-c {in_shell(run / OWN_CONFIG)} trains another like it"
        ways = f"`rl-training resume {in_shell(name)}` continues it, {another}"
        raise ConfigError(f"config: {name} is a run, not a configuration; {ways}")
    if path.suffix in _OF_CONFIGS:
        raise ConfigError(f"config: no file {name}{_above(path) or _beside(path) or _packaged_hint(name)}")
    if name in packaged_configs():
        return ASSETS / f"{name}.yaml"
    close = closest(name, packaged_configs())
    own = next((config for config in packaged_configs() if config.startswith(f"{name.lower()}/")), None)
    hint = None if close else f"; did you mean {own!r}?" if own else _beside(path)
    raise ConfigError(f"config: no packaged configuration {name!r}{hint or did_you_mean(name, packaged_configs())}")


def _is_run(path: Path) -> bool:
    return is_run(path) and (path / OWN_CONFIG).is_file() and (path / DESCRIPTION).is_file()


def _above(path: Path) -> str | None:
    """The configuration of that very name one folder up, where commands are run in a folder of their own."""
    above = Path("..", path) if len(path.parts) == 1 else path.parent.parent / path.name
    return f"; did you mean {str(above)!r}?" if above.is_file() else None


def _beside(path: Path) -> str | None:
    """The configuration in the same folder that was perhaps meant; the endings, which all share, are not compared."""
    try:
        found = {file.stem: file for file in path.parent.iterdir() if file.suffix in _OF_CONFIGS}
    except OSError:
        return None
    close = closest(path.stem, found)
    return None if close is None else f"; did you mean {str(found[close])!r}?"


def _packaged_hint(name: str) -> str:
    return did_you_mean(Path(name).with_suffix("").as_posix().removeprefix("configs/"), packaged_configs())
