"""The statistics against numbers worked by hand, brute force, and what is known to hold."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from rl_training.data.reference_returns import minari_reference, reference_of
from rl_training.experiment.statistics import (
    Estimate,
    bands,
    bootstrap,
    chance_of_separation,
    improvement,
    interquartile_mean,
    last_against_best,
    may_be_chance,
    mean,
    median,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    profile_bands,
)


class TestPointEstimates:
    @pytest.mark.parametrize(
        ("scores", "expected"),
        [
            ([1.0, 2.0, 3.0, 100.0], 2.5),  # one cut at each end
            ([100.0, 3.0, 1.0, 2.0], 2.5),  # in any order
            ([1.0, 2.0, 9.0], 4.0),  # of three nothing is cut
            ([5.0], 5.0),
            ([0.0, 0.0, 4.0, 5.0, 6.0, 7.0, 50.0, 90.0], 5.5),  # two at each end
            ([0.0, 1.0, 2.0, 3.0, 4.0], 2.0),  # ⌊5/4⌋ = 1
            ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 60.0], 3.0),  # ⌊7/4⌋ = 1, not 1.75
        ],
    )
    def test_interquartile_mean_by_hand(self, scores: list[float], expected: float) -> None:
        assert interquartile_mean(scores) == expected

    def test_interquartile_mean_ignores_the_size_of_outliers(self) -> None:
        scores = np.random.default_rng(0).normal(size=40)
        wild = scores.copy()
        wild[np.argmax(wild)], wild[np.argmin(wild)] = 1e9, -1e9
        assert interquartile_mean(wild) == interquartile_mean(scores)
        assert interquartile_mean(3.0 * scores + 7.0) == pytest.approx(3.0 * interquartile_mean(scores) + 7.0)

    def test_statistics_work_along_the_last_axis(self) -> None:
        table = np.random.default_rng(1).normal(size=(3, 5, 9))
        for statistic in (mean, median, interquartile_mean, optimality_gap):
            together = statistic(table)
            assert together.shape == (3, 5)
            assert together[2, 4] == pytest.approx(statistic(table[2, 4]))

    def test_optimality_gap_is_the_papers(self) -> None:
        scores = [20.0, 90.0, 130.0]
        assert optimality_gap(scores) == pytest.approx((80.0 + 10.0 + 0.0) / 3)
        assert optimality_gap(scores) == pytest.approx(100.0 - np.mean(np.minimum(scores, 100.0)))
        assert optimality_gap([0.25, 2.0], target=1.0) == 0.375

    def test_performance_profile_by_hand(self) -> None:
        profile = performance_profile([1.0, 2.0, 2.0, 4.0], [0.0, 1.0, 2.0, 3.0, 4.0])
        assert profile.tolist() == [1.0, 0.75, 0.25, 0.25, 0.0]  # strictly above

    def test_the_area_under_a_profile_is_the_mean(self) -> None:
        scores = np.random.default_rng(2).uniform(0.0, 1.0, 30)
        thresholds = np.linspace(0.0, 1.0, 20_001)
        assert performance_profile(scores, thresholds).mean() == pytest.approx(scores.mean(), abs=1e-4)

    def test_probability_of_improvement_by_hand(self) -> None:
        # 3>1, 3>2, 3=3 half, 2>1, 2=2 half, 2<3: 4 of 6
        assert probability_of_improvement([[3.0, 2.0]], [[1.0, 2.0, 3.0]]) == pytest.approx(4 / 6)
        assert probability_of_improvement([[3.0, 2.0], [0.0]], [[1.0, 2.0, 3.0], [9.0]]) == pytest.approx(2 / 6)

    def test_probability_of_improvement_is_mann_whitneys_u(self) -> None:
        """U from rank sums, the textbook's other way to it."""
        rng = np.random.default_rng(3)
        x, y = rng.integers(0, 6, 11).astype(float), rng.integers(0, 6, 7).astype(float)
        both = np.concatenate([x, y])
        ranks = np.array([(both < v).sum() + ((both == v).sum() + 1) / 2 for v in both])
        u = ranks[: len(x)].sum() - len(x) * (len(x) + 1) / 2
        assert probability_of_improvement([x], [y]) == pytest.approx(u / (len(x) * len(y)))
        assert probability_of_improvement([x], [y]) + probability_of_improvement([y], [x]) == pytest.approx(1.0)
        assert probability_of_improvement([x], [x]) == 0.5

    def test_chance_of_separation_by_counting(self) -> None:
        """Of all orders of five seeds alike, those in which the first two are above the other three."""
        orders = list(itertools.permutations(range(5)))
        above = [order for order in orders if min(order[:2]) > max(order[2:])]
        assert chance_of_separation(2, 3) == pytest.approx(len(above) / len(orders))
        assert chance_of_separation(3, 3) == 1 / 20

    def test_what_may_be_chance(self) -> None:
        assert may_be_chance(Estimate(1.0, 1.0, 1.0), 3, 3)  # separated, but so are one in ten of equals
        assert not may_be_chance(Estimate(1.0, 1.0, 1.0), 4, 4)
        assert may_be_chance(Estimate(0.7, 0.4, 0.9), 20, 20)
        assert may_be_chance(Estimate(1.0), 1, 1)

    def test_tasks_count_alike_whatever_their_seeds(self) -> None:
        assert probability_of_improvement([[1.0] * 9, [0.0]], [[0.0] * 9, [1.0]]) == 0.5


class TestBootstrap:
    def test_interval_is_that_of_every_possible_resample(self) -> None:
        """Of three scores there are 27 resamples: the exact distribution."""
        scores = [1.0, 2.0, 6.0]
        means = sorted(sum(three) / 3 for three in itertools.product(scores, repeat=3))
        found = bootstrap([scores], mean, resamples=200_000, level=0.5)
        low, high = np.quantile(means, [0.25, 0.75], method="inverted_cdf")
        assert found.value == 3.0
        assert (found.low, found.high) == (pytest.approx(low, abs=1e-9), pytest.approx(high, abs=1e-9))

    def test_interval_of_a_mean_is_the_normal_one(self) -> None:
        scores = np.random.default_rng(4).normal(50.0, 10.0, 400)
        found = bootstrap([scores], mean, resamples=20_000)
        half = 1.96 * scores.std() / math.sqrt(len(scores))
        assert found.low == pytest.approx(scores.mean() - half, abs=0.05)
        assert found.high == pytest.approx(scores.mean() + half, abs=0.05)

    def test_seeds_stay_in_their_task(self) -> None:
        """Two tasks that differ only between each other: with strata no resample varies, without it would."""
        assert bootstrap([[0.0] * 5, [100.0] * 5], mean) == Estimate(50.0, 50.0, 50.0)
        pooled = bootstrap([[0.0] * 5 + [100.0] * 5], mean)
        assert pooled.low is not None
        assert pooled.low < 30.0

    def test_repeatable_and_seeded(self) -> None:
        scores = [np.random.default_rng(5).normal(size=12)]
        assert bootstrap(scores) == bootstrap(scores)
        assert bootstrap(scores, seed=1) != bootstrap(scores, seed=2)

    def test_blocks_change_nothing_that_matters(self, monkeypatch: pytest.MonkeyPatch) -> None:
        scores = [np.arange(10.0)]
        whole = bootstrap(scores, mean, resamples=500)
        monkeypatch.setattr("rl_training.experiment.statistics._BLOCK", 70)
        assert bootstrap(scores, mean, resamples=500) == whole
        pair = [[np.arange(5.0)], [np.arange(4.0) + 0.5]]
        in_blocks = improvement(*pair)
        monkeypatch.undo()
        assert improvement(*pair) == in_blocks

    def test_one_score_has_no_interval(self) -> None:
        assert bootstrap([[3.0]]) == Estimate(3.0)
        assert improvement([[3.0]], [[2.0]]) == Estimate(1.0)

    @pytest.mark.parametrize("strata", [[], [[]], [[[1.0]]]])
    def test_what_is_no_strata_is_refused(self, strata: list[list[float]]) -> None:
        with pytest.raises(ValueError, match="strata"):
            bootstrap(strata)

    def test_covers_the_truth_about_as_often_as_it_says(self) -> None:
        rng = np.random.default_rng(6)
        hits = 0
        for _ in range(200):
            found = bootstrap([rng.normal(1.0, 1.0, 30)], mean, resamples=400)
            assert found.low is not None
            assert found.high is not None
            hits += found.low <= 1.0 <= found.high
        assert 0.89 <= hits / 200 <= 0.98

    def test_improvement_interval(self) -> None:
        apart = improvement([[5.0, 6.0, 7.0]], [[1.0, 2.0, 3.0]])
        assert apart == Estimate(1.0, 1.0, 1.0)
        alike = improvement([np.arange(20.0)], [np.arange(20.0) + 0.5])
        assert alike.value == pytest.approx(sum(19 - i for i in range(20)) / 400)  # i beats those below it: 190/400
        assert alike.low is not None
        assert alike.high is not None
        assert alike.low < 0.5 < alike.high

    def test_bands_are_the_intervals_of_each_point(self) -> None:
        curve = np.random.default_rng(7).normal(size=(4, 6))
        middle, low, high = bands(curve, mean)
        for point in range(4):
            alone = bands(curve[point : point + 1], mean)
            assert (middle[point], low[point], high[point]) == (alone[0][0], alone[1][0], alone[2][0])
        assert (low <= middle).all()
        assert (middle <= high).all()
        single = bands(curve[:, :1])
        assert all((part == curve[:, 0]).all() for part in single)

    def test_profile_bands(self) -> None:
        middle, low, high = profile_bands([[1.0, 2.0, 3.0, 4.0]], [0.0, 2.5, 5.0])
        assert middle.tolist() == [1.0, 0.5, 0.0]
        assert (low[0], high[0], low[2], high[2]) == (1.0, 1.0, 0.0, 0.0)
        assert low[1] == 0.0 or low[1] == 0.25  # binomial(4, ½)/4: 6% are 0
        assert 0.75 <= high[1] <= 1.0

    def test_scaling_an_estimate(self) -> None:
        assert Estimate(1.0, 0.5, 2.0).scaled(lambda x: 10 * x) == Estimate(10.0, 5.0, 20.0)
        assert Estimate(1.0).scaled(lambda x: 10 * x) == Estimate(10.0)


class TestLastAgainstBest:
    def test_by_hand(self) -> None:
        found = last_against_best([10, 20, 30], [[1.0, 1.0], [5.0, 3.0], [2.0, 4.0]])
        assert found.last.tolist() == [2.0, 4.0]
        assert found.best.tolist() == [5.0, 3.0]  # mean 4 at 20, above 3 at 30
        assert (found.best_step, found.last_step, found.drop) == (20, 30, 1.0)
        assert found.by_seed.tolist() == [5.0, 4.0]

    def test_of_equals_the_first(self) -> None:
        assert last_against_best([1, 2], [[3.0], [3.0]]).best_step == 1

    def test_mismatched_shapes_are_refused(self) -> None:
        with pytest.raises(ValueError, match="2 evaluations"):
            last_against_best([1, 2], [[1.0]])


class TestReferences:
    def test_minaris_own_scores(self) -> None:
        reference = minari_reference({"ref_min_score": -50.0, "ref_max_score": 150})
        assert reference is not None
        assert reference.score(50.0) == 50.0
        assert reference.source == "Minari"

    @pytest.mark.parametrize("metadata", [{}, {"ref_min_score": 1, "ref_max_score": 1}, {"ref_min_score": "x"}])
    def test_none_without_sound_ones(self, metadata: dict[str, object]) -> None:
        assert minari_reference(metadata) is None

    def test_a_dataset_of_minari_comes_before_d4rl(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
        folder = tmp_path / "hopper" / "mine-v0" / "data"
        folder.mkdir(parents=True)
        (folder / "metadata.json").write_text(json.dumps({"ref_min_score": 0.0, "ref_max_score": 10.0}))
        for section in ({"source": "minari", "id": "hopper/mine-v0"}, {"source": "file", "path": str(folder.parent)}):
            found = reference_of(section, "Hopper-v5")
            assert found is not None
            assert (found.expert, found.source) == (10.0, "Minari")
        (folder / "metadata.json").write_text("{broken")
        found = reference_of({"source": "minari", "id": "hopper/mine-v0"}, "Hopper-v5")
        assert found is not None
        assert found.source == "D4RL"
        assert reference_of(None, "Pendulum-v1") is None
