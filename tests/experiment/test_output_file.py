"""The file that `--output` names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rl_training.errors import ConfigError
from rl_training.experiment.output_file import require_place, write_output
from small_runs import files_under


def test_nothing_is_replaced_unasked(tmp_path: Path) -> None:
    """At the start and, where it came while one worked, at the end: the same words."""
    output = tmp_path / "page.html"
    require_place(output, force=False)
    output.write_text("theirs")
    said = f"--output {output}: exists already; --force replaces it, -o FILE writes another"
    for refused in (lambda: require_place(output, force=False), lambda: write_output(output, "mine", force=False)):
        with pytest.raises(ConfigError) as caught:
            refused()
        assert str(caught.value) == said
        assert files_under(tmp_path) == {"page.html": b"theirs"}
    require_place(output, force=True)
    write_output(output, "mine", force=True)
    assert files_under(tmp_path) == {"page.html": b"mine"}


def test_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match=r"page.html: cannot be written \(No space left on device\)$"):
        write_output(tmp_path / "page.html", "mine", force=False)
    assert files_under(tmp_path) == {}


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("folder", "is a folder; name a file"),
        ("file/in/page.html", "{0}/file is no folder, so nothing can be written into it; choose another place"),
        ("pipe", "is a device or a pipe, which no file replaces; name a file"),
    ],
)
def test_where_no_file_can_be(output: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError) as refused:
        require_place(tmp_path / output, force=True)
    assert str(refused.value) == f"--output {tmp_path / output}: {told.format(tmp_path)}"


def test_folders_of_the_system() -> None:
    for place in ("/proc/page.html", "/sys/new/page.html"):
        with pytest.raises(ConfigError, match=f"{place}: /(proc|sys) is the system's own, and no file can be made"):
            require_place(Path(place), force=True)


def test_folders_are_made_as_needed(tmp_path: Path) -> None:
    require_place(tmp_path / "new" / "one" / "page.html", force=False)
    assert files_under(tmp_path) == {}
    write_output(tmp_path / "new" / "one" / "page.html", "mine", force=False)
    assert (tmp_path / "new" / "one" / "page.html").read_text() == "mine"


def test_a_folder_that_may_not_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(ConfigError, match=r"page.html: the folder .* may not be written to$"):
        require_place(tmp_path / "page.html", force=False)
