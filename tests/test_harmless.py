"""What a stranger's configuration or folder is called reaches neither a terminal nor a browser as a command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rl_training import yaml_dialect
from rl_training.errors import ConfigError
from rl_training.harmless import escaped, escaped_lines, for_page
from rl_training.runtime.config import TrainConfig
from small_runs import small_values

TURNED = "r\u202egpj.exe"


def test_escapes() -> None:
    assert escaped("a\x1b[31m\n\u202eb") == r"a\x1b[31m\n\u202eb"
    assert escaped_lines("a\x07\nb") == "a\\x07\nb"
    assert for_page("a\u202e\x9b\u2009\nb") == "a\\u202e\\x9b\u2009\nb"


@pytest.mark.parametrize("folder", ["r/\x1b[31mRED\x1b]0;pwn\x07", "a\nb"])
def test_no_runs_in_a_folder_that_commands_a_terminal(folder: str) -> None:
    with pytest.raises(ConfigError, match=r"^runs_dir: must not contain control characters, got '"):
        TrainConfig.parse({"algo": "bc", "total_timesteps": 1, "runs_dir": folder})


def test_a_configuration_is_written_so_that_it_can_be_shown_and_read() -> None:
    text = yaml_dialect.write({"runs_dir": TURNED, "name": "ü"})
    assert text.replace("\n", "").isprintable()
    assert yaml_dialect.read(text) == {"runs_dir": TURNED, "name": "ü"}
    assert yaml_dialect.write({"name": "ü"}) == "name: ü\n"


def test_what_commands_and_pages_show(data_file: Path, tmp_path: Path) -> None:
    values = small_values(data_file, tmp_path / TURNED)
    (tmp_path / "c.yaml").write_text(json.dumps(values))
    for arguments in (
        ["train", "-c", "c.yaml", "--dry-run"],
        ["config", "show", "c.yaml"],
        ["train", "-c", "c.yaml", "-v"],
        ["runs", "--runs-dir", TURNED],
        ["report", f"{TURNED}/run", "-o", f"{TURNED}.html", "--title", TURNED, "--no-data"],
    ):
        command = [sys.executable, "-m", "rl_training", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, ""), arguments
        assert done.stdout.replace("\n", "").isprintable(), arguments
    assert "\u202e" not in (tmp_path / f"{TURNED}.html").read_text("utf-8")
