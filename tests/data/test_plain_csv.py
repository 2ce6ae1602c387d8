"""CSV files that a faster reader may read: what stands in cells that nobody reads slows nothing down."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from rl_training.data.formats.csv_text import Layout, layout_of
from rl_training.data.formats.plain_csv import is_plain

HEADER = "x,u,remark"
READ = {0, 1}


def plain(path: Path, *lines: str, header: str = HEADER) -> bool:
    path.write_bytes("".join(f"{line}\n" for line in (header, *lines)).encode())
    return is_plain(path, layout_of(path), READ)


@pytest.mark.parametrize(
    "remark",
    ["10x", "x10", "0x1f", '"0x1f"', "-0XA", "nan(1)", '5" pipe', 'a "b" c', ' "b"', '"a, b"', '"say ""x"" now"', '""'],
)
def test_of_cells_that_nobody_reads(remark: str, tmp_path: Path) -> None:
    assert plain(tmp_path / "a.csv", "1,2,", f"1,2,{remark}", "1,2,ok")
    assert plain(tmp_path / "a.csv", f'"1","2",{remark}', '1,"2",ok')


@pytest.mark.parametrize("cell", ["0x1f", "-0x1", "+0X1", ' "0x1f"', '"0x1f"', '" 0x1f"', "nan(1)", "-NaN()", "nAn(0)"])
def test_of_odd_numbers_that_are_read(cell: str, tmp_path: Path) -> None:
    assert not plain(tmp_path / "a.csv", "1,2,", f"{cell},2,ok")
    assert not plain(tmp_path / "a.csv", "1,2,", f'"1",{cell},"0x1"')
    assert not plain(tmp_path / "a.csv", "1,2,", f'"1, 1",{cell},ok')
    assert not plain(tmp_path / "a.csv", "1,2,", f"1,2,a\r{cell},2,ok")


@pytest.mark.parametrize("remark", ['"a', '"a"b', '"a" ', '"a""', '"a\nb"', '"a\rb"', '"""'])
def test_of_quotes_that_do_not_close_what_they_open(remark: str, tmp_path: Path) -> None:
    assert not plain(tmp_path / "a.csv", "1,2,", f"1,2,{remark}", "1,2,ok")


def test_lines_above_the_rows_do_not_count(tmp_path: Path) -> None:
    assert plain(tmp_path / "a.csv", 'x,"0x12",0x1f', "1,2,3", header='# "said at 0x1f')
    assert not plain(tmp_path / "a.csv", "# two lines\rin one", HEADER, "1,2,ok", header="# said")


@pytest.mark.parametrize(("first", "expected"), [('"1"', True), ('"1', False), ("1", True), ("0x1", False)])
def test_without_a_header_after_a_byte_order_mark(first: str, expected: bool, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(f"\ufeff{first},2,3\n4,5,6".encode())
    layout = Layout(["a", "b", "c"], ",", lines_above=0, has_names=False, decimals=".", is_packed=False)
    assert is_plain(tmp_path / "a.csv", layout, READ) is expected


def test_of_cells_wherever_blocks_are_cut(tmp_path: Path) -> None:
    lines = [f'{row},2,"x, y",5" pipe' for row in range(150_000)]
    path = tmp_path / "a.csv.gz"
    for last, expected in (('1,2,"x, y",5" pipe', True), ('1,2,"x, y,5 pipe', False), ("0x1,2,,", False)):
        path.write_bytes(gzip.compress("\n".join(["x,u,a,b", *lines, last]).encode(), 1))
        assert is_plain(path, layout_of(path), READ) is expected


def test_cells_too_many_to_be_found_out_are_left_to_the_other_reader(tmp_path: Path) -> None:
    """Their places are counted from the beginning of a line, each time."""
    assert plain(tmp_path / "a.csv", *[f"1,2,{'x' * 20_000} 0x1 0x1"] * 100)
    assert not plain(tmp_path / "a.csv", f"1,2,{'0x1 ' * 20_000}")
