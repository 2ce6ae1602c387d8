"""The building blocks of the report's figures: ticks, ranges, labels, and what the networks say, worked by hand."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from rl_training import algorithms
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.transforms import Transforms
from rl_training.experiment.report.diagnostics import (
    ActionCheck,
    ValueCheck,
    check_actions,
    check_values,
    learned_by_heart,
    some_episodes,
)
from rl_training.experiment.report.drawing import Drawing, grid
from rl_training.experiment.report.figures import forest
from rl_training.experiment.report.histograms import distances_beyond, histogram
from rl_training.experiment.report.prose import code_in_prose
from rl_training.experiment.report.spread import Spread, usual_range
from rl_training.experiment.report.svg import MARKERS, Chart, apart, marker, padded, tick_text, ticks, to_ticks
from rl_training.experiment.statistics import Estimate
from small_runs import knobs


class TestAxes:
    @pytest.mark.parametrize(
        ("low", "high", "expected"),
        [
            (0.0, 1.0, [0.0, 0.25, 0.5, 0.75, 1.0]),
            (-195.0, 7.0, [-150.0, -100.0, -50.0, 0.0]),
            (-1430.0, -60.0, [-1250.0, -1000.0, -750.0, -500.0, -250.0]),
            (0.0, 5000.0, [0.0, 2000.0, 4000.0]),
            (3.0, 3.0, [3.0]),
            (-1e-3, 1e-3, [-0.001, -0.0005, 0.0, 0.0005, 0.001]),
        ],
    )
    def test_ticks_are_round_and_inside(self, low: float, high: float, expected: list[float]) -> None:
        assert ticks(low, high, 4) == pytest.approx(expected)

    @pytest.mark.parametrize("scale", [1e-8, 1e-3, 1.0, 37.0, 1e5, 1e12])
    def test_ticks_at_any_scale(self, scale: float) -> None:
        found = ticks(-0.3 * scale, 1.7 * scale, 5)
        assert 3 <= len(found) <= 8
        assert len(set(np.round(np.diff(found) / scale, 9))) == 1
        texts = [tick_text(value, found[1] - found[0]) for value in found]
        assert len(set(texts)) == len(texts)

    @pytest.mark.parametrize(
        ("value", "step", "text"),
        [(1000, 500, "1,000"), (0.25, 0.25, "0.25"), (2.5e6, 5e5, "2.5M"), (0, 1, "0"), (-7.5, 2.5, "-7.5")],
    )
    def test_tick_texts(self, value: float, step: float, text: str) -> None:
        assert tick_text(value, step) == text

    def test_an_axis_ends_at_a_tick_that_is_near(self) -> None:
        assert to_ticks((-109.0, 94.0), 5) == (-109.0, 100.0)
        assert to_ticks((-1.0, 43.0), 5) == (-1.0, 43.0)
        assert to_ticks((3.0, 3.0), 5) == (3.0, 3.0)

    def test_range_leaves_out_what_is_not_finite(self) -> None:
        assert padded([[0.0, 10.0], [np.nan, np.inf]], 0.1) == (-1.0, 11.0)
        assert padded([]) == (0.0, 1.0)
        low, high = padded([[5.0]])
        assert low < 5.0 < high

    def test_labels_keep_apart(self) -> None:
        found = apart([50.0, 50.0, 52.0], 15, 0, 100)
        assert np.diff(sorted(found)).min() >= 14.9
        assert found[0] < found[1] < found[2]

    def test_places(self) -> None:
        chart = Chart((200, 100), (0.0, 10.0), (0.0, 1.0))
        assert chart.x(0.0) == chart.left
        assert chart.x(10.0) == 200 - chart.margins.right
        assert chart.y(1.0) == chart.margins.top
        assert chart.y(99.0) == chart.margins.top  # beyond the range: at the border

    @pytest.mark.parametrize("kind", MARKERS)
    def test_markers_are_sound(self, kind: str) -> None:
        made = marker(kind, 3.0, 4.0, "a < b & c")
        assert ElementTree.fromstring(made).findtext("title") == "a < b & c"
        ElementTree.fromstring(marker(kind, 3.0, 4.0))

    def test_a_chart_is_sound_and_escaped(self) -> None:
        chart = Chart((200, 100), (0.0, 4.0), (0.0, 1.0), ("<x>", "</text>"))
        chart.add(chart.line([0, 1, 2, 3], [0.0, np.nan, 0.5, 1.0]))
        chart.add(chart.band([0, 1], [0.0, 0.1], [0.2, 0.3]))
        chart.rule_y(0.5, "<b>")
        root = ElementTree.fromstring(chart.svg('"<script>'))
        assert root.get("aria-label") == '"<script>'
        (line,) = [path.get("d", "") for path in root.iter("path") if path.get("class") == "line"]
        assert len(re.findall("M", line)) == 2  # broken where there is no value


# What the networks say ----------------------------------------------------------------------------------------------


def transforms(scale: float = 1.0, shift: float = 0.0) -> Transforms:
    return Transforms(None, None, scale, shift, (-2.0,), (2.0,))


def episodes(terminated: bool = True) -> TransitionDataset:
    """Two episodes of three steps with rewards 1, 2, 4."""
    flags = np.array([False, False, True] * 2)
    return TransitionDataset.from_dict(
        {
            "obs": np.arange(18, dtype=np.float32).reshape(6, 3) / 18,
            "next_obs": np.arange(3, 21, dtype=np.float32).reshape(6, 3) / 18,
            "actions": np.array([[-2.0], [0.0], [1.0]] * 2, dtype=np.float32),
            "rewards": np.array([1.0, 2.0, 4.0] * 2, dtype=np.float32),
            "terminations": flags if terminated else np.zeros(6, bool),
            "truncations": np.zeros(6, bool) if terminated else flags,
        }
    )


class TestValues:
    def test_returns_are_discounted_and_of_the_raw_reward(self) -> None:
        learner = algorithms.load("iql")(3, 1, **knobs("iql"), gamma=0.5, seeds=(0, 1))
        found = check_values(learner, transforms(10.0), episodes())
        assert found is not None
        assert found.returns is not None
        by_hand = [1 + 0.5 * 2 + 0.25 * 4, 2 + 0.5 * 4, 4.0]
        np.testing.assert_allclose(found.returns, [by_hand * 2] * 2, rtol=1e-6)
        assert found.level() == pytest.approx(np.mean(by_hand))
        assert not found.bootstrapped

    def test_values_and_td_errors_are_in_the_unit_of_the_returns(self) -> None:
        learner = algorithms.load("iql")(3, 1, **knobs("iql"), gamma=0.5)
        scaled, plain = (check_values(learner, transforms(scale), episodes()) for scale in (10.0, 1.0))
        assert scaled is not None
        assert plain is not None
        np.testing.assert_allclose(10 * scaled.values, plain.values, rtol=1e-6)
        rewards = episodes().rewards.astype(np.float64)
        np.testing.assert_allclose(10 * scaled.td_errors[0] - plain.td_errors[0], 9 * rewards, rtol=1e-4)

    def test_shifted_rewards_stay_on_the_scale_of_the_networks(self) -> None:
        """What a shift adds up to over an episode cannot be taken off without knowing how long it is."""
        learner = algorithms.load("iql")(3, 1, **knobs("iql"), gamma=0.5)
        found = check_values(learner, transforms(10.0, shift=1.0), episodes())
        assert found is not None
        assert found.returns is not None
        assert found.scale is None
        np.testing.assert_allclose(found.returns[0, 2], 41.0, rtol=1e-6)

    def test_a_cut_episode_goes_on_with_the_learned_value(self) -> None:
        learner = algorithms.load("iql")(3, 1, **knobs("iql"), gamma=0.5)
        found = check_values(learner, transforms(), episodes(terminated=False))
        assert found is not None
        assert found.returns is not None
        assert found.bootstrapped
        import torch

        last = torch.tensor(episodes().next_obs[[2, 5]])[None]
        values = learner.model.value.values(last)[0].detach().numpy()  # type: ignore[union-attr, operator]
        np.testing.assert_allclose(found.returns[0, [2, 5]], 4.0 + 0.5 * values, rtol=1e-5)

    @pytest.mark.parametrize("algo", ["iql", "td3_bc", "cql", "awr"])
    def test_td_error_by_hand(self, algo: str) -> None:
        """From the networks themselves, row by row."""
        import torch

        learner = algorithms.load(algo)(3, 1, **knobs(algo), gamma=0.9)
        data = episodes()
        found = check_values(learner, transforms(), data)
        assert found is not None
        assert found.kind == ("V" if algo == "awr" else "Q")
        model = learner.model
        for row in range(6):
            obs, after = (torch.tensor(part[row])[None, None] for part in (data.obs, data.next_obs))
            action = torch.tensor(transforms().to_unit_actions(data.actions[row]))[None, None]
            with torch.no_grad():
                if hasattr(model, "value"):
                    next_value = float(model.value.values(after))  # type: ignore[operator, union-attr]
                else:
                    best = learner.policy.mode(after)
                    next_value = float(model.target_critics.values(after, best).min())  # type: ignore[operator, union-attr]
                if algo == "awr":
                    value = float(model.value.values(obs))  # type: ignore[operator, union-attr]
                else:
                    value = float(model.critics.values(obs, action).min())  # type: ignore[operator, union-attr]
            target = data.rewards[row] + (0.0 if data.terminations[row] else 0.9 * next_value)
            assert found.td_errors[0, row] == pytest.approx(target - value, abs=1e-5)

    def test_correlation_and_bias(self) -> None:
        learner = algorithms.load("iql")(3, 1, **knobs("iql"), seeds=(0, 1, 2))
        found = check_values(learner, transforms(), episodes())
        assert found is not None
        assert found.returns is not None
        correlation, bias = found.correlation(), found.bias()
        assert correlation is not None
        assert bias is not None
        for member in range(3):
            expected = np.corrcoef(found.values[member], found.returns[member])[0, 1]
            assert correlation[member] == pytest.approx(expected)
            assert bias[member] == pytest.approx((found.values[member] - found.returns[member]).mean())

    def test_cloning_has_no_values(self) -> None:
        assert check_values(algorithms.load("bc")(3, 1, **knobs("bc")), transforms(), episodes()) is None

    def test_a_stopped_seed_is_left_out(self) -> None:
        learner = algorithms.load("iql")(3, 1, **knobs("iql"), seeds=(0, 1))
        learner.active[0] = False
        found = check_values(learner, transforms(), episodes())
        assert found is not None
        assert found.values.shape == (1, 6)
        assert check_actions(learner, transforms(), episodes()).distances.shape == (1, 6)

    def test_distance_of_actions_by_hand(self) -> None:
        learner = algorithms.load("bc")(3, 1, **knobs("bc"))
        learner.policy.flat.data.zero_()  # type: ignore[attr-defined]  # the policy's mode is then 0 everywhere
        found = check_actions(learner, transforms(), episodes())
        np.testing.assert_allclose(found.distances[0], [1.0, 0.0, 0.5] * 2, atol=2e-5)

    def test_some_episodes_are_whole(self, dataset: TransitionDataset) -> None:
        some = some_episodes(dataset, 500)
        assert len(some) == 400  # two of two hundred rows fit
        assert some.n_episodes == 2
        assert (some.truncations[[199, 399]]).all()
        assert len(some_episodes(dataset, 50)) == 50
        assert some_episodes(dataset, 5_000) is dataset


class TestHistograms:
    def drawn(self, values: Spread, title: str = "Reward of a step") -> tuple[str, ElementTree.Element]:
        made = histogram(title, values)
        return made.caption, ElementTree.fromstring(made.draw((440, 280)))

    def test_four_outliers_do_not_press_the_others_into_one_bar(self) -> None:
        values = np.concatenate([np.random.default_rng(0).normal(-1.0, 0.4, 4_000), np.full(4, -27.0)])
        found = Spread.of(values)
        assert (found.below, found.above) == (4, 0)
        assert sum(count > 20 for count in found.inside.counts) > 10
        assert sum(found.inside.counts) == 4_000
        assert found.every.min == -27.0  # the numbers are those of all values
        caption, root = self.drawn(found)
        assert "from -27.00 to" in caption or "from -27 to" in caption
        assert "Hatched: beyond the axis (4 below)" in caption
        (beyond,) = [path for path in root.iter("path") if path.get("class") == "beyond"]
        assert beyond.get("d", "").count("M") > 3  # hatched
        (label,) = [text for text in root.iter("text") if (text.text or "").startswith("4 below")]
        assert label.text == f"4 below {found.inside.min:.3g}"

    def test_nothing_is_cut_off_without_need(self) -> None:
        rng = np.random.default_rng(0)
        sparse = np.where(np.arange(10_000) % 500 == 0, 1.0, 0.0)  # the rare reward is what there is to see
        for values in (rng.normal(size=5_000), rng.uniform(size=50), sparse, np.arange(30)):
            found = Spread.of(values)
            assert (found.below, found.above) == (0, 0)
            assert "beyond" not in self.drawn(found)[0]
        assert usual_range(sparse) == (-np.inf, np.inf)

    def test_what_one_tall_bar_does_not_show_is_said(self) -> None:
        sparse = np.where(np.arange(10_000) % 500 == 0, 1.0, 0.0)
        assert "Nearly all are 0: 20 of 10,000 are not, but 1." in self.drawn(Spread.of(sparse))[0]
        for kind in (np.int64, np.float32):
            lengths = Spread.of(np.array([1_000] * 198 + [5, 12], dtype=kind))
            assert lengths.inside.edges[0] < lengths.inside.edges[-1]
            assert "Nearly all are 1,000: 2 of 200 are not, but from 5 to 12." in self.drawn(lengths)[0]
        assert "Nearly all" not in self.drawn(Spread.of(np.arange(30)))[0]

    def test_values_at_the_end_of_float32(self) -> None:
        found = Spread.of(np.linspace(-3e38, 3e38, 50, dtype=np.float32))
        assert (found.below, found.above) == (0, 0)
        assert sum(found.inside.counts) == 50

    def test_a_hatched_bar_keeps_inside_its_box(self) -> None:
        chart = Chart((440, 280), (0.0, 1.0), (0.0, 10.0), ("x", "count"), beyond=(True, True))
        for above in (False, True):
            made = chart.bar_beyond(5.0, above=above)
            d = re.search(' d="([^"]*)"', made)
            assert d is not None
            places = np.array([pair.split() for pair in re.findall(r"[ML]([\d. ]+)", d[1])], dtype=float)
            assert np.ptp(places[:, 0]) <= 16.1
            assert places[:, 1].min() >= chart.y(5.0) - 0.1
            ends = (chart.x(1.0), 440.0) if above else (0.0, chart.x(0.0))
            assert ends[0] < places[:, 0].min() < places[:, 0].max() < ends[1]

    def test_names_and_units_under_the_axis_are_as_written(self) -> None:
        _, root = self.drawn(Spread.of(np.linspace(20, 70, 100)), "Action Rohr [°C]")
        assert "action Rohr [°C]" in [text.text for text in root.iter("text")]

    @pytest.mark.parametrize(
        ("bounds", "lines", "told"),
        [
            ((0.0, 90.0), 2, "Bounds: [0, 90] (solid lines)."),
            ((-1e4, 1e4), 0, "Bounds: [-10,000, 10,000] (beyond the axis)."),
        ],
    )
    def test_bounds(self, bounds: tuple[float, float], lines: int, told: str) -> None:
        caption, root = self.drawn(Spread.of(np.linspace(10, 60, 100), bounds))
        assert told in caption
        assert len([path for path in root.iter("path") if path.get("class") == "bound"]) == lines


class TestGrid:
    def test_only_a_figure_without_others_takes_a_row(self) -> None:
        one = Drawing("<b>x</b>", lambda size: f"<svg>{size[0]}</svg>", 3)
        odd, alone = grid([one] * 3), grid([one])
        assert "alone" not in odd
        assert odd.count("<svg>440</svg>") == odd.count("<figure") == odd.count("<figcaption>") == 3
        assert alone.count('class="alone" data-run="3"') == 1
        assert alone.endswith(
            '<div class="single"><svg>440</svg></div><figcaption><b>x</b></figcaption></figure></div>'
        )
        assert grid([]) == ""


class TestProse:
    @pytest.mark.parametrize(
        ("html", "expected"),
        [
            ("<p>a smaller --gamma is</p>", '<p>a smaller <span class="piece">--gamma</span> is</p>'),
            ("<p>(--no-data):</p>", '<p>(<span class="piece">--no-data</span>):</p>'),
            ("<p>`ab -c`</p>", '<p><code>ab <span class="piece">-c</span></code></p>'),
            ("<p>from -79.4 to x--y, a-b, e--</p>", "<p>from -79.4 to x--y, a-b, e--</p>"),
            ("<pre><code>a --x</code></pre>", '<pre><code>a <span class="piece">--x</span></code></pre>'),
            ("<pre><code>- 256\n- -1\nrl-training</code></pre>", "<pre><code>- 256\n- -1\nrl-training</code></pre>"),
            ('<svg aria-label="--x"><text>--gamma</text></svg>', '<svg aria-label="--x"><text>--gamma</text></svg>'),
            ("<b>--name</b>", "<b>--name</b>"),
            (f"--{'a' * 40}", f"--{'a' * 40}"),  # wider than a narrow screen
            ("`&lt;img&gt;` `", "<code>&lt;img&gt;</code> `"),
        ],
    )
    def test_what_is_typed_stays_in_one_piece(self, html: str, expected: str) -> None:
        assert code_in_prose(html) == expected


def test_no_line_runs_through_a_name() -> None:
    """Where zero is under the names: the dashed line stands beside the bars alone."""
    names = ["a run, seed 0", "a run, seed 1", "a run, mean of 3 seeds"]
    for width in (420, 440, 960):
        drawn = forest([(name, Estimate(1.0, -1.0, 3.0), 0) for name in names], "saving", width, middle=0.0)
        lines = [tuple(map(float, found)) for found in re.findall(r'class="rule" d="M[\d.]+ ([\d.]+)V([\d.]+)"', drawn)]
        texts = [float(y) for y in re.findall(r'<text class="name" [^>]*y="([\d.]+)"', drawn)]
        bars = [float(y) for y in re.findall(r'<path class="line" d="M[\d.]+ ([\d.]+)H', drawn)]
        assert len(lines) == len(texts) == len(bars) == len(names)
        for (top, bottom), bar in zip(lines, bars, strict=True):
            assert top <= bar - 5 < bar + 5 <= bottom
            assert not any(top < y + 4 and y - 12 < bottom for y in texts)


def test_what_lies_beyond_an_axis_of_distances() -> None:
    """None where random pairs are further away: nothing is hatched then, and the caption does not say so."""
    near = ActionCheck(np.full(1_000, 0.1), shuffled=0.5)
    far = ActionCheck(np.r_[np.full(999, 0.1), 9.0], shuffled=0.5)
    assert distances_beyond([near]) == [0.0]
    assert distances_beyond([near, far]) == [0.0, pytest.approx(0.1)]


def value_check(values: np.ndarray, returns: np.ndarray | None, errors: float = 1.0) -> ValueCheck:
    own = None if returns is None else returns[None]
    return ValueCheck("Q", values[None], np.full((1, len(values)), errors), own, False)


def test_a_held_out_error_of_more_than_twice_the_other_is_told() -> None:
    seen, line = value_check(np.zeros(4), None, -9.13), np.zeros(4)
    assert learned_by_heart(seen, value_check(line, None, 18.2)) == []
    (told,) = learned_by_heart(seen, value_check(line, None, 20.3))
    assert told.startswith("the TD error on held-out episodes is 20.3, 2.2 times the 9.13 on those trained on: the cri")
    assert learned_by_heart(value_check(line, None, 0.0), value_check(line, None, 0.0)) == []


def test_on_which_side_of_the_values_the_lowest_returns_lie() -> None:
    returns = np.concatenate([np.full(5, -100.0), np.linspace(-1.0, 1.0, 95)])
    assert value_check(np.full(100, -2.0), returns).lowest_above() == 1.0
    assert value_check(np.where(np.arange(100) < 3, -200.0, 0.0), returns).lowest_above() == pytest.approx(0.4)
    assert value_check(returns, np.zeros(100)).lowest_above() is None  # all are the lowest
    assert value_check(returns, None).lowest_above() is None
