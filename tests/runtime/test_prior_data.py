"""Prior data beside online experience: the exact share of every batch, pretraining, and the data in the buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rl_training.algorithms.base import PriorDataParams
from rl_training.algorithms.rlpd import RLPD
from rl_training.data.batch import Batch, PackedTransitions
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.offline_mixers import mix_datasets
from rl_training.data.transforms import Transforms
from rl_training.errors import ConfigError
from rl_training.runtime.config import OnlineConfig
from rl_training.runtime.engine import Engine
from rl_training.runtime.online import OnlineSource, check_prior
from rl_training.runtime.sources import Turn
from small_runs import digest
from tiny_environments import CLIFF

SEEDS = (5, 2)
ROWS = 30
PLAIN = Transforms(None, None, 1.0, 0.0, (-2.0,), (2.0,))


def prior() -> PackedTransitions:
    """Row i has observations 100 + i, which the environment never shows; with fields that online data lack."""
    column = np.arange(100.0, 100.0 + ROWS)
    ends = np.zeros(ROWS, dtype=bool)
    ends[[9, ROWS - 1]] = True
    dataset = TransitionDataset(
        np.stack((column, column), 1),
        np.zeros((ROWS, 1)),
        -column,
        np.stack((column, column), 1) + 1,
        ends,
        ~ends & ends,
    )
    complete = dataset.with_next_actions().with_returns_to_go(0.9)
    return PackedTransitions.from_dataset(complete, PLAIN)


def mixed_prior(*sizes: int, weights: tuple[float, ...]) -> PackedTransitions:
    """Parts whose rows are numbered from 1,000, 2,000, … on."""
    parts = {}
    for i, rows in enumerate(sizes):
        column = 1_000.0 * (i + 1) + np.arange(rows)
        obs = np.stack((column, column), 1)
        ends = np.arange(rows) == rows - 1
        parts[f"part {i}"] = TransitionDataset(obs, np.zeros((rows, 1)), -column, obs, ends, ~ends & ends)
    mixed = mix_datasets(parts, dict(zip(parts, weights, strict=True)))
    return PackedTransitions.from_dataset(mixed, PLAIN)


def source_of(*, prior_in_buffer: bool = False, data: PackedTransitions | None = None, **knobs: Any) -> OnlineSource:
    sizes = {"actor_hidden": (8,), "critic_hidden": (8,)}
    knobs = {"batch_size": 8, "learning_starts": 0, "buffer_capacity": 50, **knobs}
    owner = RLPD(2, 1, seeds=SEEDS, **sizes, **knobs)
    return OnlineSource(owner, PLAIN, CLIFF, owner.params, data or prior(), prior_in_buffer=prior_in_buffer)


def steps(source: OnlineSource, count: int) -> None:
    """Steps without updates."""
    while count:
        count -= source.advance(count).steps


def batch_at(source: OnlineSource, update: int) -> Batch:
    return source.batch(source.learner.keys, torch.tensor(update), source.learner.params.batch_size)


def from_prior(batch: Batch) -> Tensor:
    return batch.obs[..., 0] >= 100.0


@pytest.mark.parametrize(
    ("ratio", "size", "expected"),
    [(0.0, 8, 0), (0.5, 8, 4), (1.0, 8, 8), (0.25, 16, 4), (1 / 3, 12, 4), (0.1, 8, 1), (0.9, 10, 9), (0.5, 256, 128)],
)
def test_every_batch_holds_exactly_its_share_of_prior_rows(ratio: float, size: int, expected: int) -> None:
    source = source_of(offline_batch_ratio=ratio, batch_size=size)
    steps(source, 12)
    for update in range(20):
        batch = batch_at(source, update)
        assert batch.obs.shape == (2, size, 2)
        assert from_prior(batch).sum(-1).tolist() == [expected, expected]
        assert batch.next_actions is None
        assert batch.returns_to_go is None
    assert source.take_metrics()["data/offline_share"] == [expected / size] * 2


def test_rows_of_either_origin_are_whole() -> None:
    """A prior row stays together with its own reward, successor and flag; so does one of the buffer."""
    source = source_of(batch_size=64)
    steps(source, 20)
    batch = batch_at(source, 3)
    old = from_prior(batch)
    number = batch.obs[old][:, 0]
    assert torch.equal(batch.rewards[old], -number)
    assert torch.equal(batch.next_obs[old], batch.obs[old] + 1)
    assert torch.equal(batch.terminations[old], ((number == 109) | (number == 129)).float())
    held = {tuple(row) for member in source.buffer.rows[:, :20].tolist() for row in member}
    new = torch.cat(
        (batch.obs, batch.actions, batch.rewards[..., None], batch.next_obs, batch.terminations[..., None]), dim=-1
    )[~old]
    assert {tuple(row) for row in new.tolist()} <= held


def test_members_and_updates_draw_rows_of_their_own() -> None:
    source = source_of(batch_size=32)
    steps(source, 50)
    first, second = batch_at(source, 0), batch_at(source, 1)
    assert torch.equal(batch_at(source, 0).obs, first.obs)
    for half in (slice(0, 16), slice(16, 32)):
        assert not torch.equal(first.obs[0, half], first.obs[1, half])
        assert not torch.equal(first.obs[0, half], second.obs[0, half])
    drawn = torch.cat([batch_at(source, update).obs[0, :, 0] for update in range(60)])
    assert set(drawn[drawn >= 100].int().tolist()) == set(range(100, 130))
    assert (drawn >= 100).sum() == (drawn < 100).sum() == 60 * 16


def test_the_two_halves_are_drawn_independently() -> None:
    """With as many rows on either side, one stream for both would draw the same places."""
    source = source_of(batch_size=64, buffer_capacity=ROWS)
    steps(source, ROWS)
    batch = batch_at(source, 0)
    held = source.buffer.rows[0, :, :2].tolist()
    online = [held.index(row) for row in batch.obs[0, :32].tolist()]
    old = [int(number) - 100 for number in batch.obs[0, 32:, 0]]
    assert sum(one == other for one, other in zip(online, old, strict=True)) < 8  # one in thirty by chance


@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0])
def test_pretraining_draws_prior_data_alone_and_takes_no_step(ratio: float) -> None:
    source = source_of(offline_pretrain_updates=130, offline_batch_ratio=ratio)
    assert [source.advance(1_000) for _ in range(3)] == [Turn(0, 64), Turn(0, 64), Turn(0, 2)]
    for update in range(130):
        assert from_prior(batch_at(source, update)).all()
    assert source.steps == len(source.buffer) == 0
    assert not any(source.collector.actions)
    assert source.advance(1_000) == Turn(1, 1)
    assert from_prior(batch_at(source, 130)).sum(-1).tolist() == [round(8 * ratio)] * 2


def test_the_share_reported_is_that_of_the_batches_drawn() -> None:
    """All of it while pretraining; a record that spans both is the mean over its updates; none where none was due."""
    source = source_of(offline_pretrain_updates=66, offline_batch_ratio=0.25, learning_starts=2)
    assert "data/offline_share" not in source.take_metrics()
    source.advance(1)
    assert source.take_metrics()["data/offline_share"] == [1.0, 1.0]
    assert source.advance(1) == Turn(0, 2)
    assert source.advance(1) == Turn(1, 0)
    again = source_of(offline_pretrain_updates=66, offline_batch_ratio=0.25, learning_starts=2)
    again.restore({name: value.clone() for name, value in source.state().items()})
    for one in (source, again):
        steps(one, 6)
        assert one.take_metrics()["data/offline_share"] == [(2 * 1.0 + 6 * 0.25) / 8] * 2
        assert "data/offline_share" not in one.take_metrics()
        steps(one, 1)
        assert one.take_metrics()["data/offline_share"] == [0.25, 0.25]


def test_pretraining_is_resumed_where_it_was() -> None:
    whole = source_of(offline_pretrain_updates=130)
    whole.advance(1)
    again = source_of(offline_pretrain_updates=130)
    again.restore({name: value.clone() for name, value in whole.state().items()})
    for source in (whole, again):
        assert [source.advance(5) for _ in range(3)] == [Turn(0, 64), Turn(0, 2), Turn(1, 1)]
    assert digest(again.state()) == digest(whole.state())


def test_rounds_stay_whole_through_pretraining() -> None:
    """Four updates a round: the actor moves in the last of each, before and after the first step."""
    source = source_of(offline_pretrain_updates=12, gradient_updates_per_step=4)
    engine, updates = Engine(source.learner, source), 0
    for _ in range(3):
        turn = source.advance(1)
        engine.run(updates, turn.updates)
        updates += turn.updates
    assert updates == 12 + 2 * 4
    taken = {name: int(optimiser.state["steps"]) for name, optimiser in source.learner.optimisers.items()}
    assert taken == {"critic": 20, "actor": 5, "alpha": 5}


@pytest.mark.parametrize("capacity", [30, 50, 12])
def test_prior_data_as_the_buffer_s_first_contents(capacity: int) -> None:
    """They are drawn like any other transition, and make room like any other: the oldest first."""
    source = source_of(prior_in_buffer=True, buffer_capacity=capacity)
    kept = min(ROWS, capacity)
    assert len(source.buffer) == kept
    width = 2 + 1 + 1 + 2 + 1
    for member in range(2):
        assert torch.equal(source.buffer.rows[member, :kept], prior().rows[-kept:, :width])
    assert source.take_metrics() == {"data/buffer_size": [float(kept)] * 2}
    steps(source, 5)
    places = (torch.arange(kept, kept + 5) % capacity).tolist()
    assert (source.buffer.rows[:, places, 0] < 100).all()
    left = (source.buffer.rows[0, : len(source.buffer), 0] >= 100).sum()
    assert left == kept - max(0, kept + 5 - capacity)


def test_the_buffer_is_one_source_whatever_the_ratio() -> None:
    source = source_of(prior_in_buffer=True, offline_batch_ratio=1.0, batch_size=400)
    steps(source, 20)
    share = from_prior(batch_at(source, 0)).double().mean(-1)
    np.testing.assert_allclose(share.numpy(), 0.6, atol=4 * np.sqrt(0.24 / 400))


@pytest.mark.parametrize(
    ("sizes", "weights", "capacity", "counts"),
    [
        ((30, 10), (30.0, 10.0), 50, [30, 10]),  # by their rows: each is there once
        ((30, 10), (1.0, 3.0), 50, [10, 30]),  # thinned and repeated
        ((30, 10), (1.0, 3.0), 20, [5, 15]),
        ((30, 10, 20), (1.0, 1.0, 1.0), 30, [10, 10, 10]),
        ((30, 1), (1.0, 1.0), 2, [1, 1]),
    ],
)
def test_a_mixture_is_in_the_buffer_by_its_weights(
    sizes: tuple[int, ...], weights: tuple[float, ...], capacity: int, counts: list[int]
) -> None:
    source = source_of(data=mixed_prior(*sizes, weights=weights), prior_in_buffer=True, buffer_capacity=capacity)
    held = source.buffer.rows[0, : len(source.buffer), 0].numpy().astype(int)
    for i, (rows, count) in enumerate(zip(sizes, counts, strict=True)):
        times = np.bincount(held[held // 1_000 == i + 1] % 1_000, minlength=rows)
        assert times.sum() == count
        assert times.max() - times.min() <= 1  # all rows alike


def test_the_weights_hold_while_prior_data_age_out_of_the_buffer() -> None:
    data = mixed_prior(30, 10, weights=(1.0, 3.0))
    source = source_of(data=data, prior_in_buffer=True, buffer_capacity=40)
    for _ in range(8):
        steps(source, 4)
        held = source.buffer.rows[0, :, 0]
        first, second = ((held // 1_000 == part).sum().item() for part in (1, 2))
        assert abs(first - (first + second) / 4) <= 1


def test_a_mixture_the_buffer_cannot_hold() -> None:
    parts = {"a": _rows(4), "b": _rows(4)}
    settings = OnlineConfig(prior="buffer", buffer_capacity=1)
    with pytest.raises(ConfigError, match=r"^dataset\.exact: a buffer holds shares on average; use online\.prior"):
        check_prior(mix_datasets(parts, exact=True), settings, in_buffer=True, memory="auto")
    with pytest.raises(ConfigError, match=r"^online\.buffer_capacity: must be at least 2, the parts of the mixture$"):
        check_prior(mix_datasets(parts), settings, in_buffer=True, memory="auto")
    check_prior(mix_datasets(parts, exact=True), settings, in_buffer=False, memory="auto")


def _rows(count: int) -> TransitionDataset:
    none = np.zeros(count, dtype=bool)
    return TransitionDataset(np.zeros((count, 2)), np.zeros((count, 1)), none, np.zeros((count, 2)), none, none)


def test_a_buffer_that_started_with_prior_data_is_resumed() -> None:
    whole, again = (source_of(prior_in_buffer=True, buffer_capacity=33) for _ in range(2))
    steps(whole, 7)
    again.restore({name: value.clone() for name, value in whole.state().items()})
    for source in (whole, again):
        steps(source, 40)
    assert digest(again.state()) == digest(whole.state())


def test_online_parameters_alone_mix_nothing() -> None:
    """SAC's settings say nothing of a share: with a dataset at hand it still learns from the buffer only."""
    source = source_of()
    assert isinstance(source.settings, PriorDataParams)
    from rl_training.algorithms.sac import SAC

    sac = SAC(2, 1, seeds=SEEDS, batch_size=8, actor_hidden=(8,), critic_hidden=(8,), learning_starts=0)
    plain = OnlineSource(sac, PLAIN, CLIFF, sac.params, prior())
    steps(plain, 3)
    assert not from_prior(batch_at(plain, 0)).any()
