"""The random streams: a pure function of (seed, stream, update, position), and good enough random numbers."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from rl_training import streams
from rl_training.streams import Noise, NoiseStreams, bits, integers, member_keys, normal, stream_id, uniform

MASK = (1 << 64) - 1
Draw = Callable[[Tensor, int, int], Tensor]
DRAWS: dict[str, Draw] = {
    "bits": lambda keys, stream, update: bits(keys, stream, update, 11),
    "uniform": lambda keys, stream, update: uniform(keys, stream, update, (11, 3)),
    "normal": lambda keys, stream, update: normal(keys, stream, update, (11, 3)),
    "integers": lambda keys, stream, update: integers(keys, stream, update, 11, 1_000_003),
}
every_draw = pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())


def splitmix64(state: int) -> int:
    """The output function of Steele, Lea & Flood (2014) in unbounded Python integers."""
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
    return state ^ (state >> 31)


@every_draw
def test_a_member_draws_the_same_alone_and_among_others(draw: Draw) -> None:
    alone = draw(member_keys([7]), 5, 123)
    among = draw(member_keys([0, 7, 1, 2**40, -3]), 5, 123)
    assert torch.equal(among[1], alone[0])
    assert len({tuple(row.flatten().tolist()) for row in among}) == 5


@every_draw
def test_updates_and_streams_give_other_numbers(draw: Draw) -> None:
    keys = member_keys([7])
    drawn = [draw(keys, stream, update).flatten() for stream in (0, 1, 2**31) for update in (0, 1, 2, 10**9)]
    for i, one in enumerate(drawn):
        for other in drawn[i + 1 :]:
            # Chance alone would let hardly any position of eleven to thirty-three agree.
            assert int((one == other).sum()) == 0


@every_draw
def test_update_may_be_a_tensor(draw: Draw) -> None:
    keys = member_keys([3, 4])
    assert torch.equal(draw(keys, 9, torch.tensor(41)), draw(keys, 9, 41))  # type: ignore[arg-type]


def test_neighbouring_seeds_updates_and_streams_are_uncorrelated() -> None:
    n = 20_000
    rows = [
        uniform(member_keys([seed]), stream, update, (n,))[0].double().numpy()
        for seed, stream, update in [(0, 0, 0), (1, 0, 0), (2, 0, 0), (0, 1, 0), (0, 2, 0), (0, 0, 1), (0, 0, 2)]
    ]
    correlations = np.corrcoef(rows)[np.triu_indices(len(rows), 1)]
    assert np.abs(correlations).max() < 4.0 / math.sqrt(n)
    series = rows[0] - rows[0].mean()
    for lag in (1, 2, 3, 17):
        assert abs((series[lag:] * series[:-lag]).mean() / series.var()) < 4.0 / math.sqrt(n)


def test_bits_are_splitmix64() -> None:
    seed, stream, update = 7, 0xCAFEBABE, 1000
    golden = 0x9E3779B97F4A7C15
    key = splitmix64((seed * golden + golden) & MASK)
    state = splitmix64((splitmix64(key ^ (stream * 0x2545F491)) + update * golden) & MASK)
    expected = [splitmix64((state + position * golden) & MASK) for position in range(1, 6)]
    assert [value & MASK for value in bits(member_keys([seed]), stream, update, 5)[0].tolist()] == expected


def test_every_bit_is_set_half_of_the_time() -> None:
    raw = bits(member_keys([11]), 3, 0, 20_000)[0].numpy().view(np.uint64)
    shares = np.array([((raw >> np.uint64(bit)) & np.uint64(1)).mean() for bit in range(64)])
    assert np.abs(shares - 0.5).max() < 4.5 * 0.5 / math.sqrt(len(raw))


def test_uniform_is_uniform() -> None:
    n = 200_000
    draws = uniform(member_keys([1, 2]), 4, 77, (n,)).double().numpy()
    assert draws.min() >= 0.0
    assert draws.max() < 1.0
    for row in draws:
        assert abs(row.mean() - 0.5) < 4 * math.sqrt(1 / 12 / n)
        assert abs(row.var() - 1 / 12) < 4 * math.sqrt(1 / 180 / n)
        # Kolmogorov-Smirnov: the 0.1% critical value of the largest distance is 1.95/√n.
        ranks = np.arange(1, n + 1) / n
        assert np.abs(np.sort(row) - ranks).max() < 1.95 / math.sqrt(n)
        # Chi-square with 99 degrees of freedom: 148.2 is its 0.1% critical value.
        counts = np.bincount((row * 100).astype(int), minlength=100)
        assert ((counts - n / 100) ** 2 / (n / 100)).sum() < 148.2


def test_normal_is_standard_normal() -> None:
    n = 200_001  # odd: half of the last pair is thrown away
    draws = normal(member_keys([1, 2]), 4, 77, (n,)).double().numpy()
    for row in draws:
        assert abs(row.mean()) < 4 / math.sqrt(n)
        assert abs(row.var() - 1) < 4 * math.sqrt(2 / n)
        assert abs((row**3).mean()) < 4 * math.sqrt(15 / n)
        assert abs((row**4).mean() - 3) < 4 * math.sqrt(96 / n)
        cumulative = np.array([0.5 * (1 + math.erf(x / math.sqrt(2))) for x in np.sort(row)[::20]])
        ranks = np.arange(1, n + 1)[::20] / n
        assert np.abs(cumulative - ranks).max() < 1.95 / math.sqrt(n)
        cosines, sines = row[: n // 2 + 1], row[n // 2 + 1 :]
        assert abs(np.corrcoef(cosines[: len(sines)], sines)[0, 1]) < 4 / math.sqrt(n / 2)
        assert abs(np.corrcoef(cosines[: len(sines)] ** 2, sines**2)[0, 1]) < 4 / math.sqrt(n / 2)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [(0, [math.sqrt(48 * math.log(2)), 0.0]), (-1, [0.0, 0.0])],
    ids=["all bits zero", "all bits one"],
)
def test_normal_is_finite_at_the_extreme_bits(monkeypatch: pytest.MonkeyPatch, raw: int, expected: list[float]) -> None:
    """log(0) would come once in 2^24 draws, that is in every run."""
    monkeypatch.setattr(streams, "bits", lambda keys, stream, update, count: torch.full((1, count), raw))
    np.testing.assert_allclose(normal(member_keys([0]), 0, 0, (2,))[0].numpy(), expected, rtol=1e-6)


def test_uniform_stays_below_one_at_the_extreme_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "bits", lambda keys, stream, update, count: torch.tensor([[-1, 0]]))
    assert uniform(member_keys([0]), 0, 0, (2,)).tolist() == [[1.0 - 2.0**-24, 0.0]]


@pytest.mark.parametrize("bound", [1, 2, 7, 1000, 10**6, 2**40])
def test_integers_are_in_range_and_uniform(bound: int) -> None:
    n = 100_000
    draws = integers(member_keys([1, 9]), 8, 3, n, bound).numpy()
    assert draws.min() >= 0
    assert draws.max() < bound
    bins = min(bound, 50)
    for row in draws:
        counts = np.bincount((row * bins) // bound, minlength=bins)
        edges = np.ceil(np.arange(bins + 1) * bound / bins)
        expected = n * np.diff(edges) / bound
        # Mean bins-1, standard deviation √(2(bins-1)): five of them.
        assert ((counts - expected) ** 2 / expected).sum() <= (bins - 1) + 5 * math.sqrt(2 * (bins - 1))


def test_integers_take_a_tensor_as_bound() -> None:
    keys = member_keys([1, 9])
    assert torch.equal(integers(keys, 8, 3, 20, torch.tensor(37)), integers(keys, 8, 3, 20, 37))


# The first number is SplitMix64's published first output for seed 0, 0xE220A8397B1DCDAF.
GOLDEN = """\
-2152535657050944081 -4214222208109204676
1148540665
5343755878388733272 389606237263731629 8271161667944408298
0.28968554735183716 0.021120548248291016 0.4483805298805237
0.1575 -2.0400 -1.5662
36 14 49
"""


def golden() -> str:
    keys = member_keys([0, 7])
    lines = [
        keys.tolist(),
        [stream_id("actor")],
        bits(keys, 42, 1000, 3)[1].tolist(),
        uniform(keys, 42, 1000, (3,))[1].tolist(),
        [f"{x:.4f}" for x in normal(keys, 42, 1000, (3,))[1].tolist()],
        integers(keys, 42, 1000, 3, 100)[1].tolist(),
    ]
    return "".join(" ".join(map(str, line)) + "\n" for line in lines)


def test_golden_values() -> None:
    """A run's numbers follow from these: changing the generator makes every older run irreproducible."""
    assert golden() == GOLDEN


def test_another_process_draws_the_same() -> None:
    script = "import test_streams; print(test_streams.golden(), end='')"
    result = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "12345"},
    )
    assert result.stdout == golden()


def test_noise_streams_draw_each_name_from_its_own_stream() -> None:
    keys = member_keys([3, 4])
    specification = {"actor": Noise("normal", (5, 2)), "penalty": Noise("uniform", (4, 5, 2))}
    drawn = NoiseStreams(specification).draw(keys, 6)
    assert torch.equal(drawn["actor"], normal(keys, stream_id("actor"), 6, (5, 2)))
    assert torch.equal(drawn["penalty"], uniform(keys, stream_id("penalty"), 6, (4, 5, 2)))
    # What one source is given does not depend on which others there are.
    alone = NoiseStreams({"penalty": specification["penalty"]}).draw(keys, 6)
    assert torch.equal(alone["penalty"], drawn["penalty"])
