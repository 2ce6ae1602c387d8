"""Every command, program and configuration on the site and in the README is run, page by page, in the order it stands.

What is not run says why, on the page itself (`not run: …` after the block's language) and in the list below.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from reader import Reader, blocks, bring, not_run
from website.links import DOCS, REPOSITORY
from website.site import all_pages

# What a page takes for granted that its reader has.
OWN = {
    "README.md": ("log.csv", "my.yaml", "runs/my-run"),
    "data/checking.md": ("log.npz",),
    "data/converting.md": ("robot.csv", "hopper.hdf5", "log.npz", "minari:D4RL/door/human-v2"),
    "data/recording.md": ("runs/pendulum",),
    "runs.md": ("my.yaml",),
    "commands.md": (
        *("log.csv", "log.npz", "robot.csv", "robot.hdf5", "hopper.hdf5", "obs.npy", "my.yaml"),
        *("other.npz", "logs"),
        *("runs/my-run", "runs/run-a", "runs/run-b"),
    ),
}
NOT_RUN = {
    "README.md": ["it installs into .venv and runs the tests themselves"],
    "index.md": ["needs the network"],
    "commands.md": ["needs the extra video", "needs the network"],
    "tutorials/minari.md": ["needs the network"],
    "CONTRIBUTING.md": [
        "a sketch of the file, without its imports; the tests run the file itself",
        "the first line runs the tests themselves",
    ],
}
SLOW = ("commands.md",)
WRITTEN = sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))
PAGES = ["README.md", "CONTRIBUTING.md", "commands.md", *WRITTEN]


@cache
def pages() -> dict[str, str]:
    return all_pages() | {"README.md": (REPOSITORY / "README.md").read_text("utf-8")}


@pytest.mark.parametrize("page", [pytest.param(p, marks=[pytest.mark.slow] if p in SLOW else []) for p in PAGES])
def test_the_page_does_what_it_says(
    page: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    for name in OWN.get(page, ()):
        bring(name)
    reader = Reader(monkeypatch)
    for block in blocks(pages()[page]):
        if block.runs:
            capsys.readouterr()
            reader.follow(block)
        elif block.language == "text" and page.startswith("tutorials/"):  # what the commands above it print
            printed = capsys.readouterr().out.splitlines()
            assert [line for line in block.code.splitlines() if line not in printed] == []
    if page.startswith("algorithms/"):
        scores = [float(score) for score in reader.printed.split()]
        assert scores
        assert max(scores) < 0.0


def test_every_page_is_among_them() -> None:
    """Pages without a block that runs need no test."""
    having = {page for page, text in pages().items() if any(block.runs for block in blocks(text))}
    assert having <= {*PAGES}


def test_what_is_not_run_says_why() -> None:
    assert {page: reasons for page, text in pages().items() if (reasons := not_run(text))} == NOT_RUN


def test_no_block_is_left_out_by_its_form() -> None:
    known = {"bash", "console", "python", "yaml", "text", "signature"}
    odd = [
        (page, block.line) for page, text in pages().items() for block in blocks(text) if block.language not in known
    ]
    assert odd == []
    typed = [
        (page, line)
        for page, text in pages().items()
        for b in blocks(text)
        if b.language == "text"
        for line in b.code.splitlines()
        if line.lstrip("$ ").startswith("rl-training ")
    ]
    assert typed == []
