"""The ring of experience: what is kept, where it lies, and that a checkpoint brings back both."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import Tensor

import rl_training.data
from rl_training.data.replay_buffer import ReplayBuffer

WIDTHS = {"obs": 2, "actions": 1, "rewards": 1, "next_obs": 2, "terminations": 1}
M = 3


def rows(first: int, count: int, members: int = M) -> Tensor:
    """Numbered transitions: row i of member m is 1000·m + i in every column, plus a tenth of the column."""
    number = torch.arange(first, first + count).view(1, -1, 1) + 1000.0 * torch.arange(members).view(-1, 1, 1)
    return number + torch.arange(7) / 10


def numbers(buffer: ReplayBuffer, member: int = 0) -> list[int]:
    """Which transitions lie in the slots of the ring, in the order of the slots."""
    return [int(value) - 1000 * member for value in buffer.rows[member, : len(buffer), 0]]


def filled(capacity: int, total: int, step: int) -> ReplayBuffer:
    buffer = ReplayBuffer(M, capacity, WIDTHS)
    for first in range(0, total, step):
        buffer.add(rows(first, min(step, total - first)))
    return buffer


def test_it_fills_in_order_and_then_replaces_the_oldest() -> None:
    buffer = ReplayBuffer(M, 5, WIDTHS)
    contents = []
    for i in range(8):
        buffer.add(rows(i, 1))
        contents.append(numbers(buffer))
    assert contents[:5] == [list(range(i + 1)) for i in range(5)]
    assert contents[5:] == [[5, 1, 2, 3, 4], [5, 6, 2, 3, 4], [5, 6, 7, 3, 4]]
    assert len(buffer) == int(buffer.filled) == 5


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("total", [0, 3, 5, 7, 10, 23])
def test_how_rows_arrive_does_not_matter(total: int, step: int) -> None:
    """Row i lies in slot i mod capacity, the newest of those that share one."""
    buffer = filled(5, total, step)
    assert len(buffer) == min(total, 5)
    assert numbers(buffer) == [max(i for i in range(total) if i % 5 == slot) for slot in range(min(total, 5))]


def test_a_batch_that_goes_round_the_end() -> None:
    buffer = filled(5, 4, 4)
    buffer.add(rows(4, 3))
    assert numbers(buffer) == [5, 6, 2, 3, 4]
    buffer.add(rows(7, 1))
    assert numbers(buffer) == [5, 6, 7, 3, 4]


@pytest.mark.parametrize("before", [0, 2, 5, 8])
@pytest.mark.parametrize("count", [5, 6, 13])
def test_more_than_it_holds_keeps_the_newest(before: int, count: int) -> None:
    buffer = filled(5, before, 1)
    buffer.add(rows(before, count))
    newest = list(range(before + count - 5, before + count))
    assert sorted(numbers(buffer)) == newest
    assert len(buffer) == 5
    for following in range(5):  # and the oldest of them goes first
        buffer.add(rows(before + count + following, 1))
        assert sorted(numbers(buffer)) == [*newest[following + 1 :], *range(newest[-1] + 1, newest[-1] + following + 2)]


def test_nothing_added_changes_nothing() -> None:
    buffer = filled(5, 3, 3)
    buffer.add(rows(3, 0))
    assert numbers(buffer) == [0, 1, 2]
    buffer.add(rows(3, 1))
    assert numbers(buffer) == [0, 1, 2, 3]


def test_each_member_has_its_own_rows() -> None:
    buffer = filled(5, 7, 2)
    for member in range(M):
        assert numbers(buffer, member) == [5, 6, 2, 3, 4]
    indices = torch.tensor([[0, 4], [1, 1], [2, 0]])
    taken = buffer.rows_at(indices)
    assert taken.shape == (M, 2, 7)
    assert taken[:, :, 0].tolist() == [[5.0, 4.0], [1006.0, 1006.0], [2002.0, 2005.0]]


def test_gather_names_the_columns() -> None:
    batch = filled(5, 5, 5).gather(torch.tensor([[3], [0], [1]]))
    shapes = {name: tuple(value.shape) for name, value in batch._asdict().items() if value is not None}
    assert shapes == {
        "obs": (M, 1, 2),
        "actions": (M, 1, 1),
        "rewards": (M, 1),
        "next_obs": (M, 1, 2),
        "terminations": (M, 1),
    }
    np.testing.assert_allclose(batch.obs[0, 0].numpy(), [3.0, 3.1], rtol=1e-6)
    np.testing.assert_allclose(batch.actions[1, 0].numpy(), [1000.2], rtol=1e-6)
    np.testing.assert_allclose(batch.rewards[2].numpy(), [2001.3], rtol=1e-6)
    np.testing.assert_allclose(batch.next_obs[0, 0].numpy(), [3.4, 3.5], rtol=1e-6)
    np.testing.assert_allclose(batch.terminations[0].numpy(), [3.6], rtol=1e-6)


@pytest.mark.parametrize("total", [0, 3, 5, 8, 12])
def test_a_restored_ring_goes_on_where_it_was(total: int) -> None:
    whole, stored = filled(5, total, 1), filled(5, total, 1).state()
    stored = {name: value.clone() for name, value in stored.items()}
    assert stored["rows"].shape == (M, min(total, 5), 7)  # empty slots are not written to disk
    again = ReplayBuffer(M, 5, WIDTHS)
    again.restore(stored)
    assert len(again) == min(total, 5)
    for following in range(7):
        for buffer in (whole, again):
            buffer.add(rows(total + following, 1))
        assert numbers(again, 1) == numbers(whole, 1)


def test_restoring_forgets_what_was_there() -> None:
    buffer = filled(5, 12, 1)
    buffer.restore({name: value.clone() for name, value in filled(5, 2, 1).state().items()})
    assert numbers(buffer) == [0, 1]
    buffer.add(rows(2, 1))
    assert numbers(buffer) == [0, 1, 2]


def test_rows_are_copied_in() -> None:
    buffer, given = ReplayBuffer(M, 5, WIDTHS), rows(0, 2)
    buffer.add(given)
    given.fill_(-1.0)
    assert numbers(buffer) == [0, 1]


def test_what_is_filled_is_a_tensor_that_stays_the_same_object() -> None:
    """A compiled update reads it from the device, whatever was added since."""
    buffer = ReplayBuffer(M, 5, WIDTHS)
    seen = buffer.filled
    for i in range(7):
        buffer.add(rows(i, 1))
        assert int(seen) == min(i + 1, 5)
    buffer.restore({name: value.clone() for name, value in filled(5, 2, 1).state().items()})
    assert int(seen) == 2
    assert buffer.filled is seen


def test_is_found_where_data_are_and_imports_torch_only_then() -> None:
    before, after = ("assert 'torch' not in sys.modules", "assert 'torch' in sys.modules")
    asked = f"import sys, rl_training.data as data; {before}; data.ReplayBuffer; {after}"
    subprocess.run([sys.executable, "-c", asked], check=True)
    assert rl_training.data.ReplayBuffer is ReplayBuffer
    with pytest.raises(AttributeError, match="has no attribute 'Replay'"):
        _ = rl_training.data.Replay  # type: ignore[attr-defined]
