"""The file that `--output` names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rl_training.errors import ConfigError
from rl_training.experiment.output_file import require_free, write_output
from small_runs import files_under


def test_nothing_is_replaced_unasked(tmp_path: Path) -> None:
    """At the start and, where it came while one worked, at the end: the same words."""
    output = tmp_path / "page.html"
    require_free(output, force=False)
    output.write_text("theirs")
    said = f"--output {output}: exists already; --force replaces it, -o FILE writes another"
    for refused in (lambda: require_free(output, force=False), lambda: write_output(output, "mine", force=False)):
        with pytest.raises(ConfigError) as caught:
            refused()
        assert str(caught.value) == said
        assert files_under(tmp_path) == {"page.html": b"theirs"}
    require_free(output, force=True)
    write_output(output, "mine", force=True)
    assert files_under(tmp_path) == {"page.html": b"mine"}


def test_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match=r"page.html: cannot be written \(No space left on device\)$"):
        write_output(tmp_path / "page.html", "mine", force=False)
    assert files_under(tmp_path) == {}
