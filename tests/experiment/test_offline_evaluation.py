"""Estimates without a simulator: what is said of them, and when they are not to be trusted."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training import BC
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.offline_mixers import mix_datasets
from rl_training.errors import CheckpointError, ConfigError, DataError
from rl_training.experiment import manager, offline_doubts, statistics
from rl_training.experiment import offline_evaluation as module
from rl_training.experiment.manager import LoadedPolicy, load_policy
from rl_training.experiment.offline_doubts import (
    FEWEST_EPISODES,
    behind_the_cuts,
    caution_of_a_stop,
    caution_of_cuts,
    doubts,
    ran_away,
    unsettled,
)
from rl_training.experiment.shipping.card import offline_evaluation
from rl_training.experiment.statistics import Estimate
from rl_training.experiment.stored_estimates import gain_between
from rl_training.experiment.stray_fits import caution_of_strays, stray_fits, without_strays
from rl_training.runtime.fitted_evaluation import FittedValues, OfflineEvaluationConfig
from rl_training.runtime.model_rollouts import ModelledValues
from rl_training.runtime.modelled_ends import ModelledEnds
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.trainer import Trainer, train
from small_runs import knobs, small_config

QUICK: dict[str, Any] = {"updates": 10, "repeats": 2}


def fitted(**changes: Any) -> FittedValues:
    """A policy at -10 and a behaviour at -12, by three repeats on twenty episodes; nothing speaks against it."""
    returns = np.linspace(-16.0, -8.0, 20)
    starts = np.empty((3, 2, 20))
    starts[:, 0], starts[:, 1] = returns + 2.0, returns
    starts += np.array([-0.1, 0.0, 0.1])[:, None, None]
    values = {
        "gamma": 0.9,
        "starts": starts,
        "weights": np.full((3, 20), 0.05),
        "course": np.broadcast_to(starts.mean(-1), (10, 3, 2)),
        "td_errors": np.full((2, 3, 2), 1.0),
        "left_out": np.zeros((3, 2)),
        "extremes": np.stack((np.full((3, 2), -20.0), np.full((3, 2), -1.0))),
        "allowed": (-40.0, 0.0),
        "observed": returns,
        "behind": np.zeros(20),
        "after": np.zeros((3, 2, 20)),
        "updates": 5_000,
    }
    return FittedValues(**values | changes)


def modelled(value: float, *, apart: float = 0.1, foretold: float = 0.98) -> ModelledValues:
    """What three models say of one policy."""
    return ModelledValues(value + np.array([[-apart], [0.0], [apart]]), foretold, 25)


class TestDoubts:
    def test_none(self) -> None:
        assert doubts(fitted(), 0, 0.01) == []

    def test_actions_the_data_have_not_seen(self) -> None:
        (said,) = doubts(fitted(), 0, 0.43)
        assert said.startswith("in 43% of the states the policy does what no similar state of the data has seen")

    def test_left_out_episodes(self) -> None:
        """It is the value that must hold on other episodes; a few rows with large errors are no matter."""
        errors = np.stack((np.full((3, 2), 1.0), np.full((3, 2), 9.0)))
        assert doubts(fitted(td_errors=errors), 0, 0.0) == []
        (said,) = doubts(fitted(left_out=np.array([[-2.0, 0.0], [-2.1, 0.0], [-1.9, 0.0]])), 0, 0.0)
        assert said.startswith("on episodes left out of a resample the value misses what followed by -2")
        assert doubts(fitted(left_out=np.array([[-4.0, 0.0], [0.0, 0.0], [np.nan, np.nan]])), 0, 0.0) == []  # chance

    def test_most_of_the_weight_behind_the_cuts(self) -> None:
        (said,) = doubts(fitted(behind=np.full(20, 0.8)), 0, 0.0)
        assert said.startswith("80% of an episode's discounted weight lies behind its cut")

    def test_what_the_data_forbid_is_the_one_reason_and_ends_the_fits(self) -> None:
        """More updates would be advised in vain: the fit is refused whatever it comes to."""
        moving = np.linspace(0.0, -50.0, 60).reshape(10, 3, 2)
        assert unsettled(fitted(course=moving))
        cut = fitted(course=moving, behind=np.full(20, 0.8))
        assert not unsettled(cut)
        (said,) = doubts(cut, 0, 0.5)
        assert "lies behind its cut" in said
        assert said.updates is None
        assert said.endswith("a smaller --gamma")
        assert (said.updates, said.nearer) == (None, True)

    @pytest.mark.parametrize(("extreme", "told"), [(60.0, "impossible (60.0,"), (np.nan, "not finite")])
    def test_divergence(self, extreme: float, told: str) -> None:
        ends = np.stack((np.full((3, 2), -20.0), np.full((3, 2), extreme)))
        (said,) = doubts(fitted(extremes=ends), 0, 0.0)
        assert told in said
        assert (said.updates, said.nearer) == (None, not np.isnan(extreme))

    def test_a_fit_that_ran_away_is_judged_by_the_part_before(self) -> None:
        """Where that had settled; the sentence is of the part that ran away, and no seed is told to go further."""
        ends = np.stack((np.full((3, 2), -20.0), np.array([[60.0, -1.0]] * 3)))
        away = fitted(extremes=ends, updates=3_500)
        assert ran_away(away)
        assert not ran_away(fitted())
        assert not ran_away(fitted(allowed=(-10.0, -10.0)))  # nothing to run away from; said at the end
        settled = fitted(updates=3_000, left=away, course=fitted().course[:6])
        assert doubts(settled, 0, 0.0) == []
        (said,) = caution_of_a_stop(settled, 4)
        assert said.startswith("seed 4 is judged after 3,000 updates: after 3,500, its values became impossible")
        early = replace(settled, course=settled.course[:3])
        (said,) = doubts(early, 0, 0.0)
        assert said.startswith("the estimate became impossible (60.0, where")
        assert "the fit was stopped after 3,500 updates; record more" in said
        assert said.endswith("0.9 about 10)")
        assert caution_of_a_stop(fitted(), 4) == []

    def test_a_fit_that_was_cut_short_is_not_settled(self) -> None:
        """Its rate falls before values have travelled, so that nothing moves at its end."""
        for short in (fitted(updates=1_500), fitted(updates=1_200, course=fitted().course[:8], left=fitted())):
            (said,) = doubts(short, 0, 0.0)
            assert said.startswith("a fit of fewer than 5,000 updates stays near the data's own returns")
            assert said.endswith("leave out --updates")
            assert (said.updates, said.nearer) == (None, False)

    def test_what_ran_away_does_not_make_the_others_go_on(self) -> None:
        away = np.concatenate([np.full((3, 1, 20), np.nan), fitted().starts], 1)
        wide = {name: np.repeat(getattr(fitted(), name), [2, 1], -1) for name in ("course", "left_out")}
        one = fitted(starts=away, gone={0: fitted()}, **wide)
        assert not unsettled(one)
        assert unsettled(replace(one, observed=one.observed + 3.0))

    def test_rewards_that_hardly_differ_do_not_stop_a_fit(self) -> None:
        """They allow next to no range, which a fit misses by a hair; twice the value is still no value."""
        flat = {"starts": np.full((3, 2, 20), 99.0), "observed": np.linspace(60.0, 60.1, 20)}
        near = fitted(allowed=(99.9, 100.1), extremes=np.stack((np.full((3, 2), 97.0), np.full((3, 2), 103.0))), **flat)
        assert not ran_away(near)
        away = replace(near, extremes=np.stack((np.full((3, 2), 97.0), np.full((3, 2), 200.0))))
        assert ran_away(away)
        assert not ran_away(replace(near, allowed=(-100.1, -99.9), starts=-near.starts, extremes=-near.extremes))

    def test_no_more_updates_where_values_move_outwards(self) -> None:
        sound = fitted()
        apart = sound.starts.copy()
        apart[:, 0] += np.array([-2.0, 0.0, 2.0])[:, None]
        nearing, parting = np.array(sound.course), np.array(sound.course)
        nearing[:8, :, 0] += np.array([-4.0, 0.0, 4.0])
        (said,) = doubts(replace(sound, starts=apart, course=nearing), 0, 0.0)
        assert "go further with --updates 10000 --repeats 10" in said
        assert (said.updates, said.nearer) == (10_000, False)
        parting[8:, :, 0] += np.array([-2.0, 0.0, 2.0])
        (said,) = doubts(replace(sound, starts=apart, course=parting), 0, 0.0)
        assert "go further" not in said
        assert "it is diverging; more updates will not help; record more episodes" in said
        assert (said.updates, said.nearer) == (None, True)
        faster = np.array(sound.course)
        faster[:, :, 0] += np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1, 0.2, 1.0, 3.0])[:, None]
        assert "it is diverging" in doubts(fitted(course=faster), 0, 0.0)[0]

    def test_a_value_that_rewards_cannot_add_up_to(self) -> None:
        sound = fitted()
        (said,) = doubts(replace(sound, starts=sound.starts - 40.0), 0, 0.0)
        assert said.startswith("the estimate became impossible (")
        assert "where episodes of these data cannot come to less than -40.0), and" in said

    def test_rewards_that_are_always_the_same(self) -> None:
        """Any error of Q would leave a range of no width, and be called divergence."""
        (said,) = doubts(fitted(allowed=(-10.0, -10.0)), 0, 0.0)
        assert said.startswith("rewards of these data add up to -10.0 whatever is done, so every policy looks the same")

    def test_repeats_that_disagree(self) -> None:
        sound = fitted()
        apart = sound.starts.copy()
        apart[:, 0] += np.array([-2.0, 0.0, 2.0])[:, None]
        (said,) = doubts(replace(sound, starts=apart), 0, 0.0)
        assert said.startswith(
            "fits on resampled episodes gave very different values (± 9.04, more than the episodes' own ± "
        )

    def test_a_fit_that_still_moves(self) -> None:
        course = np.array(fitted().course)
        course[:8, :, 0] -= 1.0
        course[:6, :, 0] -= 2.0  # slower than before
        (said,) = doubts(fitted(course=course), 0, 0.0)
        assert said == "the value still moved by 1 at the end of the fit; go further with --updates 10000"
        assert unsettled(fitted(course=course))

    def test_a_fit_that_went_on_is_held_to_the_round_before(self) -> None:
        course = np.concatenate([fitted().course - 1.0, fitted().course])
        course[10:] += np.linspace(-1.0, 0.0, 10)[:, None, None].clip(-0.1)
        assert "still moved by 1 at the end" in doubts(fitted(course=course, updates=10_000), 0, 0.0)[0]
        assert not unsettled(fitted())

    def test_it_goes_on_while_that_leads_somewhere(self) -> None:
        """The first round starts where all repeats agree; a second one that parts them further is the last."""
        sound = fitted()
        apart = sound.starts + np.array([-2.0, 0.0, 2.0])[:, None, None]
        first = np.array(sound.course) + np.linspace(0.0, 1.0, 10)[:, None, None] * np.array([-1.0, 0.0, 1.0])[:, None]
        assert unsettled(replace(sound, starts=apart, course=first))
        of_behaviour = np.where(np.arange(2)[:, None] == 1, apart, sound.starts)
        assert not unsettled(replace(sound, starts=of_behaviour))  # as the episodes do
        away, back = (
            np.concatenate([first, sound.course + by * np.array([-2.0, 0.0, 2.0])[:, None]]) for by in (1.0, 0.4)
        )
        assert not unsettled(replace(sound, starts=apart, course=away))
        assert unsettled(replace(sound, starts=apart, course=back))

    def test_a_behaviour_that_is_not_found_again(self) -> None:
        sound = fitted()
        (said,) = doubts(replace(sound, observed=sound.observed + 3.0), 0, 0.0)
        assert "the behaviour itself is fitted as -12.0, and its episodes returned -9" in said
        assert said.endswith("the fit is not there yet; go further with --updates 10000")
        assert unsettled(replace(sound, observed=sound.observed + 3.0))
        (said,) = doubts(replace(sound, observed=sound.observed + 3.0, updates=20_000), 0, 0.0)
        assert "although the fit has settled" in said

    def test_what_lies_behind_the_cuts_does_not_help_to_find_it(self) -> None:
        """-12 in all of which -3 are fitted behind the cuts: the recorded steps are fitted as -9, and returned -12."""
        cut = fitted(behind=np.full(20, 0.1), after=np.full((3, 2, 20), -30.0))
        (said,) = doubts(cut, 0, 0.0)
        assert "the behaviour itself is fitted as -9" in said
        assert doubts(replace(cut, observed=cut.observed + 3.0), 0, 0.0) == []

    def test_cuts_that_nothing_is_like(self) -> None:
        behind = np.full(20, 0.1)
        (said,) = caution_of_cuts(fitted(behind=behind, lone_cuts=0.4))
        assert said.startswith("40% of the cuts are in states that the first half of no other episode comes near")
        assert caution_of_cuts(fitted(behind=behind, lone_cuts=0.1)) == []
        assert caution_of_cuts(fitted(behind=np.full(20, 0.001), lone_cuts=0.4)) == []

    def test_what_lies_behind_the_cuts_in_words(self) -> None:
        (said,) = behind_the_cuts(0.37, [("the behaviour", -0.81, -6.58), ("seed 0", 50.9, 21.25)])
        assert said.endswith("37% of the discounted weight, -6.58 of the behaviour's -0.81, 21.2 of seed 0's 50.9")
        assert behind_the_cuts(0.001, []) == []

    def test_a_model_that_says_something_else(self) -> None:
        """Against the deviation of the episodes' returns, 2.4; where models differ more than that, so may they."""
        (said,) = doubts(fitted(), 0, 0.0, modelled(-14.0))
        assert said.startswith(
            "played in a model of the dynamics, the policy is worth -14.0, and the fit says -10.0: the model foretells"
            " 98% of how left-out episodes differ over 25 steps"
        )
        assert said.endswith("or of this policy if it is safe to try")
        assert doubts(fitted(), 0, 0.0, modelled(-6.0))[0].startswith("played in a model")  # better is no proof, either
        assert doubts(fitted(), 0, 0.0, modelled(-11.7)) == []
        assert doubts(fitted(), 0, 0.0, modelled(-14.0, apart=3.0)) == []

    @pytest.mark.parametrize("foretold", [0.96, -4.0, np.nan])
    def test_a_model_that_cannot_follow_has_no_say(self, foretold: float) -> None:
        assert doubts(fitted(), 0, 0.0, modelled(-30.0, foretold=foretold)) == []

    def test_a_model_without_a_number_has_no_say(self) -> None:
        assert doubts(fitted(), 0, 0.0, modelled(np.nan)) == []

    def ends(self, elsewhere: float, endless: float = np.nan, foretold: float = 0.95, cut: float = 0.0) -> list[str]:
        shares = ModelledEnds(np.array([elsewhere]), np.array([endless]), foretold, cut)
        return list(doubts(fitted(), 0, 0.0, replace(modelled(-10.0), ends=shares)))

    def test_ends_that_the_data_do_not_know(self) -> None:
        (said,) = self.ends(0.59, 0.004)
        assert said.startswith(
            "played in a model of the dynamics, which foretells the end of 95% of left-out episodes, 59% of its"
            " episodes end in states in which none of the data did (at most 10%): the policy goes"
        )
        assert said.endswith("or record episodes of this policy if it is safe to try")
        (said,) = self.ends(0.3, 0.6)
        assert "30% of its episodes end in states in which none of the data did (at most 10%) and 60% of its" in said
        (said,) = self.ends(0.0, 0.6)
        assert "60% of its episodes go on for longer than any of the data (at most 10%)" in said
        assert self.ends(0.1, 0.1) == self.ends(0.05) == []

    def test_cut_episodes_may_have_gone_on(self) -> None:
        (said,) = self.ends(0.0, 0.35, cut=0.2)
        assert "35% of its episodes go on for longer than any of the data (at most 30%)" in said
        assert self.ends(0.0, 0.3, cut=0.2) == self.ends(0.0, 1.0, cut=0.95) == []

    @pytest.mark.parametrize("foretold", [0.89, np.nan])
    def test_a_model_that_foretells_no_ends_has_no_say(self, foretold: float) -> None:
        assert self.ends(0.9, 0.9, foretold) == []

    def test_few_episodes(self) -> None:
        sound = fitted()
        few = replace(sound, starts=sound.starts[..., :9], weights=np.full((3, 9), 1 / 9), observed=sound.observed[:9])
        said = doubts(few, 0, 0.0)[0]
        assert said.startswith(f"there are only 9 episodes, and an interval needs at least {FEWEST_EPISODES}")


class TestStrayFits:
    """A single fit among many that diverges."""

    def many(self, count: int = 20, **last: float) -> FittedValues:
        """As `fitted` by so many repeats, the last of them far away."""
        rng = np.random.default_rng(0)
        base, apart = fitted(), rng.normal(0.0, 0.1, count)
        starts = base.starts[1] + apart[:, None, None]
        starts[-1, 0] += last.get("far", 0.0)
        course = np.broadcast_to(starts.mean(-1), (10, count, 2)).copy()
        course[:-1, -1, 0] -= last.get("moved", 0.0)
        return fitted(
            starts=starts,
            weights=np.full((count, 20), 0.05),
            course=course,
            td_errors=np.full((2, count, 2), 1.0),
            left_out=np.zeros((count, 2)),
            extremes=np.stack((np.full((count, 2), -20.0), np.full((count, 2), -1.0))),
            after=np.zeros((count, 2, 20)),
        )

    def test_one_in_ten_at_most_is_left_out(self) -> None:
        for count, left_out in ((20, [19]), (10, [9]), (9, []), (5, [])):
            assert stray_fits(self.many(count, far=-20.0, moved=-4.0)) == left_out
        several = self.many(20, far=-20.0, moved=-4.0)
        several.starts[16:18, 0] -= 30.0
        several.course[-1, 16:18, 0] -= 30.0
        assert stray_fits(several) == []  # three of twenty: it is no longer about single fits

    def test_one_that_has_settled_far_away_stays(self) -> None:
        """It may be what its episodes say."""
        assert stray_fits(self.many(far=-20.0)) == []
        assert stray_fits(self.many(moved=-4.0)) == []
        assert stray_fits(self.many(far=-2.0, moved=-2.0)) == []  # no more than the episodes differ

    def test_a_value_that_cannot_be(self) -> None:
        for far in (np.nan, -100.0):
            assert stray_fits(self.many(far=far)) == [19]

    def test_the_others_are_judged_as_ever(self) -> None:
        one = self.many(far=-300.0, moved=-40.0)
        assert doubts(one, 0, 0.0)
        assert unsettled(one)
        kept = without_strays(one)
        assert doubts(kept, 0, 0.0) == []
        assert not unsettled(kept)
        assert (kept.repeats.shape, kept.values[0]) == ((19, 2), pytest.approx(-10.0, abs=0.2))
        (said,) = caution_of_strays(one, [19], [4])
        assert said.startswith("1 of 20 resamples is left out, as its fit diverges (seed 4: -309.9")
        assert "the behaviour" not in said
        assert caution_of_strays(one, [], [4]) == []


def test_student() -> None:
    """Against the tables of Student's distribution."""
    for degrees, expected in ((1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262), (30, 2.042)):
        assert statistics.student_quantile(0.975, degrees) == pytest.approx(expected, abs=5e-4)
    assert statistics.student_cdf(0.0, 3) == 0.5
    assert statistics.student_cdf(1.0, 1) == pytest.approx(0.75)
    found = statistics.student_estimate(1.0, [0.0, 1.0, 2.0])
    assert (found.low, found.high) == (pytest.approx(1.0 - 4.303, abs=1e-3), pytest.approx(1.0 + 4.303, abs=1e-3))
    wider = statistics.student_estimate(1.0, [0.0, 1.0, 2.0], besides=0.75)  # hypot(1, 0.75) = 1.25
    assert wider.high == pytest.approx(1.0 + 1.25 * 4.303, abs=2e-3)
    assert statistics.chance_above_zero(4.303, [0.0, 1.0, 2.0]) == pytest.approx(0.975, abs=1e-4)
    assert [statistics.chance_above_zero(value, [1.0, 1.0]) for value in (2.0, 0.0, -2.0)] == [1.0, 0.5, 0.0]


class TestFewEpisodes:
    """Intervals of few resamples of few episodes, held to draws of both."""

    def test_a_standard_error_that_is_estimated_twice(self) -> None:
        draw = np.random.default_rng(0)
        squares = [draw.chisquare(degrees, 400_000) / degrees for degrees in (4, 14)]
        drawn = np.abs(draw.standard_normal(400_000)) / np.sqrt(squares[0] * squares[1])
        for t in (0.5, 2.0, 3.0, 6.0):
            within = 2.0 * statistics.twice_estimated_cdf(t, 4, 14) - 1.0
            assert within == pytest.approx(float((drawn <= t).mean()), abs=0.003)

    @pytest.mark.parametrize(("degrees", "others"), [(4, 14), (1, 2), (9, 1), (3, 400)])
    def test_it_does_not_matter_which_is_which(self, degrees: int, others: int) -> None:
        for t in (-1.5, 0.0, 0.7, 4.0):
            one, other = (statistics.twice_estimated_cdf(t, *both) for both in ((degrees, others), (others, degrees)))
            assert one == pytest.approx(other, abs=1e-4)
        endless = statistics.twice_estimated_cdf(2.0, degrees, 10**7)
        assert endless == pytest.approx(statistics.student_cdf(2.0, degrees), abs=1e-5)

    @pytest.mark.parametrize("episodes", [10, 15, 40])
    def test_intervals_hold_the_truth_as_often_as_they_say(self, episodes: int) -> None:
        """Means of normal returns, of which the resamples are those of `EpisodeBootstrap`."""
        draw = np.random.default_rng(episodes)
        held = {None: 0, episodes: 0}
        for _ in range(4_000):
            returns = draw.normal(3.0, 2.0, episodes)
            repeats = returns[draw.integers(episodes, size=(5, episodes))].mean(1)
            for known in held:
                found = statistics.student_estimate(returns.mean(), repeats, episodes=known)
                held[known] += float(found.low or 0.0) <= 3.0 <= float(found.high or 0.0)
        assert held[episodes] / 4_000 == pytest.approx(0.95, abs=0.01)
        assert held[None] < held[episodes]

    def test_a_variance_of_resamples_lacks_one_episode(self) -> None:
        """Resampling n values gives their mean a variance of (n-1)/n of what it has."""
        repeats = [-1.0, 0.0, 1.0]  # with a standard deviation of 1
        found = statistics.student_estimate(0.0, repeats, episodes=5).high
        assert found is not None
        quantile = found / np.sqrt(5 / 4)
        assert 2.0 * statistics.twice_estimated_cdf(quantile, 2, 4) - 1.0 == pytest.approx(0.95, abs=1e-4)

    def test_the_chance_of_an_improvement_is_that_of_the_interval(self) -> None:
        repeats = [0.0, 1.0, 2.0, 3.0]
        half = statistics.student_estimate(0.0, repeats, episodes=12).high
        assert half is not None
        assert statistics.chance_above_zero(half, repeats, episodes=12) == pytest.approx(0.975)
        assert statistics.chance_above_zero(-half, repeats, episodes=12) == pytest.approx(0.025)

    def test_the_mean_of_what_was_recorded(self) -> None:
        found = statistics.student_mean([0.0, 1.0, 2.0])
        assert (found.value, found.high) == (1.0, pytest.approx(1.0 + 4.303 / 3**0.5, abs=1e-3))
        assert statistics.student_mean([2.0]) == statistics.Estimate(2.0)
        many = statistics.student_mean(np.arange(100_000) % 2)
        assert many.high == pytest.approx(0.5 + 1.96 * 0.5 / 1e5**0.5, abs=1e-5)


# Whole evaluations ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(data_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds, with checkpoints after 10 and 20 updates."""
    runs = tmp_path_factory.mktemp("runs")
    return train(small_config(data_file, runs, seed=[4, 2], checkpoint_interval=10)).run.path


def records(run: Path) -> list[dict[str, Any]]:
    return RunDirectory.open(run).records("offline_evaluations")


def test_stored_and_the_same_every_time(run: Path) -> None:
    policy = load_policy(run)
    one, two = policy.evaluate_offline(**QUICK), policy.evaluate_offline(**QUICK)
    assert one.to_json() == two.to_json() == json.loads(json.dumps(records(run)[-1]))
    before = len(records(run))
    policy.evaluate_offline(**QUICK, store=False)
    assert len(records(run)) == before
    assert (one.step, [policy.seed for policy in one.policies]) == (20, [4, 2])
    assert one.data.trained_on
    assert "trained on these episodes" in one.cautions[0]
    assert one.data.episodes == 10


def test_a_resample_that_is_left_out_keeps_its_place(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the record, so that runs are compared by the same resamples."""
    policy = load_policy(run)
    whole = policy.evaluate_offline(updates=10, repeats=10, store=False)
    monkeypatch.setattr(module, "stray_fits", lambda _: [3])
    found = policy.evaluate_offline(updates=10, repeats=10, store=False)
    told, other = found.to_json(), whole.to_json()
    assert (found.left_out, len(found.repeats), told["repeats"], told["resamples_left_out"]) == ((3,), 9, 10, [3])
    assert told["of_every_repeat"][3] == [None] * (len(found.policies) + 1)
    assert told["of_every_repeat"][4] == other["of_every_repeat"][4]
    for record in (told, other):
        for one in record["policies"]:
            one["not_trusted_because"] = []
        record["value"] = {"value": 1.0}
    assert gain_between(told, other) is not None
    assert gain_between({**told, "of_every_repeat": [[None] * 3] * 10}, other) is None


def test_the_mean_over_seeds_is_that_of_the_trusted(run: Path) -> None:
    found = load_policy(run).evaluate_offline(**QUICK, store=False)
    first, second = found.policies
    trusted = replace(found, policies=(replace(first, why_not=()), replace(second, why_not=("of a test",))))
    assert trusted.trusted == [trusted.policies[0]]
    mean, gain = trusted.mean_value(), trusted.mean_improvement()
    assert mean is not None
    assert gain is not None
    assert mean.value == pytest.approx(first.value.value)
    assert gain[0].value == pytest.approx(first.improvement.value)
    assert gain[1] == pytest.approx(first.probability)
    told = trusted.to_json()
    assert told["policies"][1]["value"] is None
    assert told["policies"][1]["not_trusted_because"] == ["of a test"]
    assert replace(found, policies=(replace(first, why_not=("a",)),)).to_json()["value"] is None


def test_what_diverged_is_told_in_json(run: Path) -> None:
    """JSON has no NaN, and the behaviour may be what diverged."""
    found = load_policy(run).evaluate_offline(**QUICK, store=False)
    nan = statistics.Estimate(np.nan, np.nan, np.inf)
    observed = replace(found.observed, value=nan, tail=np.nan)
    diverged = replace(found, behaviour_value=nan, observed=observed, repeats=np.full_like(found.repeats, np.nan))
    diverged = replace(diverged, policies=tuple(replace(one, value=nan, why_not=("a",)) for one in found.policies))
    told = json.loads(json.dumps(diverged.to_json(), allow_nan=False))
    assert told["behaviour"]["value"] == told["behaviour"]["return"] == {"value": None, "low": None, "high": None}


def test_an_estimate_that_cannot_be_stored_is_not_lost(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise CheckpointError("offline_evaluations.jsonl: cannot be written")

    monkeypatch.setattr(RunDirectory, "append_late", refused)
    with pytest.warns(UserWarning, match="the estimate was not stored: offline_evaluations"):
        found = load_policy(run).evaluate_offline(**QUICK)
    assert found.step == 20


def test_other_data(run: Path, dataset: TransitionDataset, tmp_path: Path) -> None:
    policy = load_policy(run)
    other = TransitionDataset.from_dict(dataset.to_dict() | {"rewards": dataset.rewards - 1.0})
    other.save(tmp_path / "other.npz")
    found = policy.evaluate_offline(tmp_path / "other.npz", **QUICK, store=False)
    assert (found.data.trained_on, found.data.share_trained_on) == (False, 0.0)
    assert found.cautions == (
        "10 episodes are few: if all of them were run alike, a policy that is much worse can come out as good as the"
        " behaviour; a similar estimate is no proof of similar quality",
    )
    assert found.data.fingerprint == policy.evaluate_offline(other, **QUICK, store=False).data.fingerprint
    half = dataset.select(np.arange(1_000))
    assert policy.evaluate_offline(half, **QUICK, store=False).data.trained_on  # rows of it, at least
    strong = TransitionDataset.from_dict(dataset.to_dict() | {"actions": 3.0 * dataset.actions})
    cautions = policy.evaluate_offline(strong, **QUICK, store=False).cautions
    assert any("outside the bounds the policy was trained with ([" in caution for caution in cautions)
    actions = dataset.actions.copy()
    actions[7] = 21.0
    one = TransitionDataset.from_dict(dataset.to_dict() | {"actions": actions})
    cautions = policy.evaluate_offline(one, **QUICK, store=False).cautions
    assert any(caution.startswith(f"1 of {len(one):,} actions lies outside") for caution in cautions)


def test_rows_without_a_successor_are_not_counted(run: Path, dataset: TransitionDataset) -> None:
    """A log without successors loses the last row of every episode that was cut, and an episode of one row entirely."""
    rows = {name: values for name, values in dataset.to_dict().items() if name != "next_obs"}
    rows["truncations"] = dataset.truncations | (np.arange(len(dataset)) == 0)
    log = TransitionDataset.from_dict(rows)
    found = load_policy(run).evaluate_offline(log, **QUICK, store=False)
    assert (log.n_episodes, len(log)) == (11, 2_000)
    assert (found.data.episodes, found.data.transitions) == (10, 2_000 - 11)


def test_no_interval_goes_beyond_what_rewards_add_up_to(run: Path, dataset: TransitionDataset) -> None:
    """Costs of 1 to 3 a step, with a few repeats that are far apart."""
    costs = replace(dataset, rewards=-2.0 - np.tanh(dataset.rewards))
    found = load_policy(run).evaluate_offline(costs, updates=200, repeats=2, gamma=0.5)
    low, high = found.allowed
    assert (low, high) == pytest.approx((2.0 * costs.rewards.min(), 2.0 * costs.rewards.max()))
    for one in (found.behaviour_value, *(policy.value for policy in found.policies)):
        assert low <= float(str(one.low)) <= one.value <= float(str(one.high)) <= high
    assert Estimate(-5.0, -20.0, 9.0).within(-12.0, 0.0) == Estimate(-5.0, -12.0, 0.0)
    assert Estimate(1.0, -20.0, 9.0).within(-12.0, 0.0) == Estimate(1.0, -20.0, 9.0)  # which is refused for it
    assert Estimate(1.0).within(-12.0, 0.0) == Estimate(1.0)


def test_how_many_of_the_episodes_were_trained_on(run: Path, dataset: TransitionDataset) -> None:
    """Four of the run's ten episodes, and six that it has not seen."""
    rows = dataset.to_dict()
    new = np.arange(len(dataset)) >= 800
    other = TransitionDataset.from_dict(rows | {"rewards": np.where(new, dataset.rewards - 0.5, dataset.rewards)})
    found = load_policy(run).evaluate_offline(other, **QUICK, store=False)
    assert (
        "the policy was trained on about 4 of these 10 episodes, which flatters it; judge it on others"
        in found.cautions
    )
    assert not found.data.trained_on
    assert found.data.share_trained_on == pytest.approx(0.4)
    assert found.to_json()["data"]["share_trained_on"] == found.data.share_trained_on


def test_whether_they_were_trained_on_may_not_be_known(dataset: TransitionDataset, tmp_path: Path) -> None:
    """Not where the data of the training are gone, or others by now: what is not among them may have been."""
    dataset.save(tmp_path / "own.npz")
    place = manager.start(small_config(tmp_path / "own.npz", tmp_path)).run.path
    policy, other = load_policy(place), replace(dataset, rewards=dataset.rewards - 0.5)

    def share(data: TransitionDataset) -> float | None:
        return policy.evaluate_offline(data, **QUICK, store=False).data.share_trained_on

    assert (share(other), share(dataset)) == (0.0, 1.0)
    replace(dataset, rewards=dataset.rewards + 2.0).save(tmp_path / "changed.npz")
    (tmp_path / "changed.npz").replace(tmp_path / "own.npz")
    assert (share(other), share(dataset)) == (None, 1.0)
    (tmp_path / "own.npz").unlink()
    assert (share(other), share(dataset)) == (None, 1.0)


def test_without_updates_it_goes_on_until_it_has_settled(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four rounds of the default at most; a number that was given is kept to."""
    monkeypatch.setattr(OfflineEvaluationConfig.model_fields["updates"], "default", 20)
    OfflineEvaluationConfig.model_rebuild(force=True)
    try:
        monkeypatch.setattr(module, "unsettled", lambda fitted: True)
        policy = load_policy(run)
        assert policy.evaluate_offline(repeats=2, store=False).updates == 80
        assert policy.evaluate_offline(updates=30, repeats=2, store=False).updates == 30
        monkeypatch.setattr(module, "unsettled", lambda fitted: fitted.updates < 40)
        assert policy.evaluate_offline(repeats=2, store=False).to_json()["updates"] == 40
    finally:
        monkeypatch.undo()
        OfflineEvaluationConfig.model_rebuild(force=True)


def test_one_seed_that_runs_away_leaves_the_other_alone(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = load_policy(run)
    alike: dict[str, Any] = {"updates": 50, "repeats": 2, "store": False}
    (_, other), whole = policy.evaluate_offline(**alike).policies, policy.evaluate_offline(**alike)
    monkeypatch.setattr(module, "ran_away", lambda found: {0} if found.updates >= 30 else set())
    monkeypatch.setattr(module, "doubts", lambda *_: [])
    found = policy.evaluate_offline(**alike)
    first, second = found.policies
    assert found.updates == 50
    assert second.value == other.value
    assert first.value != whole.policies[0].value
    assert found.repeats[:, 1:] == pytest.approx(whole.repeats[:, 1:])
    assert found.repeats[:, 0].mean() != whole.repeats[:, 0].mean()
    told = [caution for caution in found.cautions if "is judged after" in caution]
    assert [one.split(",")[0] for one in told] == ["seed 4 is judged after 25 updates: after 30"]


def test_each_seed_is_held_to_its_own_second_opinion(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, told = load_policy(run), {}

    def opinion(actor: Any, members: Any, *_: Any, **options: Any) -> ModelledValues:
        told.update(members=members, **options)
        return ModelledValues(np.array([[1e6, 0.0]] * 2) + first_fit, 0.99, 25)

    quick = policy.evaluate_offline(**QUICK, store=False, gamma=0.9)
    first_fit = np.array([one.value.value for one in quick.policies])
    monkeypatch.setattr(module, "roll_out", opinion)
    monkeypatch.setattr(offline_doubts, "DEFAULT_UPDATES", 10)  # so that a quick fit counts
    found = policy.evaluate_offline(**QUICK, store=False, gamma=0.9, members=[4, 2])
    spoken = [[why for why in one.why_not if why.startswith("played in a model")] for one in found.policies]
    assert [len(why) for why in spoken] == [1, 0]
    assert told == {"members": [0, 1], "gamma": 0.9, "deterministic": True}
    record = found.to_json()
    assert record["foretold_by_the_model"] == 0.99
    middle = record["policies"][0]["diagnostics"]["modelled_value"]
    assert middle["value"] == middle["low"] == middle["high"] == pytest.approx(1e6 + first_fit[0])


def test_a_mixture_is_said_to_lose_its_shares(run: Path, dataset: TransitionDataset) -> None:
    mixed = mix_datasets({"all": dataset, "few": dataset.select(np.arange(400))}, {"all": 0.1, "few": 0.9})
    found = load_policy(run).evaluate_offline(mixed, **QUICK, store=False)
    assert "the shares of the mixture are not used: every row counts alike" in found.cautions
    assert found.data.episodes == 12


@pytest.mark.parametrize(("gamma", "said"), [(0.99, False), (0.999, True)])
def test_values_that_lie_behind_the_cuts_are_said_to(run: Path, gamma: float, said: bool) -> None:
    """Episodes are cut after 200 steps: 0.99^200 is 13% and 0.999^200 is 82% of what their weights add up to."""
    found = load_policy(run).evaluate_offline(**QUICK, gamma=gamma, store=False)
    told = [reason for reason in found.policies[0].why_not if "behind its cut" in reason]
    assert len(told) == int(said)
    assert not said or told[0].startswith("82% of an episode's discounted weight")
    assert found.observed.behind == pytest.approx(gamma**200)


def test_episodes_that_all_end_may_be_added_up(run: Path, dataset: TransitionDataset) -> None:
    ended = replace(dataset, terminations=dataset.truncations, truncations=np.zeros_like(dataset.truncations))
    policy = load_policy(run)
    found = policy.evaluate_offline(ended, **QUICK, gamma=1.0, store=False)
    assert found.behaviour_return.value == pytest.approx(found.observed.undiscounted)
    assert found.sums_up
    assert any(one.startswith("undiscounted: this assumes that the policy's episodes end") for one in found.cautions)
    assert not policy.evaluate_offline(dataset, **QUICK, store=False).sums_up


def test_cuts_far_from_all_else_are_told(run: Path, dataset: TransitionDataset) -> None:
    policy = load_policy(run)
    said = "of the cuts are in states that the first half of no other episode comes near"
    assert not any(said in one for one in policy.evaluate_offline(dataset, **QUICK, store=False).cautions)
    lengths = dataset.episode_lengths()
    rise = 0.05 * np.concatenate([np.arange(length) for length in lengths])[:, None]
    drifting = replace(dataset, obs=dataset.obs + rise, next_obs=dataset.next_obs + rise + 0.05)
    found = policy.evaluate_offline(drifting, **QUICK, store=False)
    assert any(one.startswith("100% " + said) for one in found.to_json()["cautions"])


def test_mistakes(run: Path, dataset: TransitionDataset) -> None:
    policy = load_policy(run)
    for wrong, said in (
        ({"updates": 3}, "updates"),
        ({"repeats": 1}, "repeats"),
        ({"update": 20}, "update: no such option; did you mean 'updates'?"),
        ({"gamma": 1.5}, "gamma: must be from 0 to 1, got 1.5"),
        ({"gamma": 1.0}, r"gamma: 1 adds up whole episodes, .*: 10 of 10 are cut"),
        ({"members": [7]}, "7 is not in this run; it has 4, 2"),
    ):
        with pytest.raises(ConfigError, match=said):
            policy.evaluate_offline(**{**QUICK, **wrong})
    narrow = TransitionDataset.from_dict(
        dataset.to_dict() | {"obs": dataset.obs[:, :2], "next_obs": dataset.next_obs[:, :2]}
    )
    with pytest.raises(DataError, match="observations have 2 columns, the policy was trained with 3"):
        policy.evaluate_offline(narrow, **QUICK)
    with pytest.raises(DataError, match=r"nowhere\.npz"):
        policy.evaluate_offline("nowhere.npz", **QUICK)


def test_managed(dataset: TransitionDataset, tmp_path: Path) -> None:
    """Arrays in memory are known to the model that was trained from them, and to no other."""
    model = BC(dataset=dataset, total_timesteps=2, runs_dir=str(tmp_path), **knobs("bc")).learn()
    found = model.evaluate_offline(**QUICK)
    assert found.data.trained_on
    assert model.run_dir is not None
    assert len(records(model.run_dir)) == 1
    with pytest.raises(ConfigError, match="trained from arrays in memory; name the data"):
        load_policy(model.run_dir).evaluate_offline(**QUICK)
    with pytest.raises(ConfigError, match="evaluate_offline"):
        model.evaluate()


def test_a_resumed_run_forgets_what_was_said_of_later_weights(data_file: Path, tmp_path: Path) -> None:
    path = train(small_config(data_file, tmp_path, checkpoint_interval=10)).run.path
    for which in (10, 20):
        load_policy(path, which).evaluate_offline(**QUICK)
    both = (path / "offline_evaluations.jsonl").read_bytes()
    (said,) = RunDirectory.open(path).rewind(10)
    assert [record["step"] for record in records(path)] == [10]
    assert "1 record is of weights after step 10, which are trained anew; kept as it was in offline_eval" in said
    assert (path / "offline_evaluations.jsonl.aside").read_bytes() == both  # nobody will write them again
    assert RunDirectory.open(path).rewind(10) == []


def test_a_resumed_run_takes_no_offence_at_several_estimates(data_file: Path, tmp_path: Path) -> None:
    """Of one checkpoint twice, with the same answer, and of an older one last: all stay, in the order of asking."""
    path = train(small_config(data_file, tmp_path, checkpoint_interval=10)).run.path
    for which in (20, 20, 10):
        load_policy(path, which).evaluate_offline(**QUICK)
    assert RunDirectory.open(path).rewind(20) == []
    assert [record["step"] for record in records(path)] == [20, 20, 10]
    assert not list(path.glob("*.aside"))


def test_half_a_line_is_not_added_to(data_file: Path, tmp_path: Path) -> None:
    path = train(small_config(data_file, tmp_path)).run.path
    load_policy(path).evaluate_offline(**QUICK)
    with (path / "offline_evaluations.jsonl").open("a") as file:
        file.write('{"step": 20, "see')
    load_policy(path).evaluate_offline(**QUICK)
    assert [record["step"] for record in records(path)] == [20, 20]


def test_the_card_tells_of_this_checkpoint_only(run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("offline_evaluations*")))
    policy = load_policy(run)
    policy.evaluate_offline(**QUICK)
    place = RunDirectory.open(run)
    told = offline_evaluation(policy, place, 2)
    assert told is not None
    assert told["seed"] == 2
    assert told["data"]["title"] == "pendulum.npz"
    assert told["behaviour"] == records(run)[-1]["behaviour"]
    assert offline_evaluation(load_policy(run, 10), place, 2) is None
    assert offline_evaluation(policy, None, 2) is None
    assert offline_evaluation(LoadedPolicy(policy.checkpoint, policy.actor), place, 9) is None


def test_columns_in_another_order_are_refused(tmp_path: Path) -> None:
    """By their names, where both have some: values would be taken for others."""
    rng = np.random.default_rng(0)
    table = {name: rng.normal(size=60) for name in ("warm", "wet", "cost")} | {"u": rng.uniform(-1, 1, 60)}
    table["t"] = np.tile(np.arange(5), 12)
    lines = [",".join(table), *(",".join(str(values[row]) for values in table.values()) for row in range(60))]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    columns = {"obs": ["warm", "wet"], "actions": "u", "rewards": "cost", "step": "t"}
    section = {"source": "file", "path": str(tmp_path / "log.csv"), "columns": columns}
    policy = load_policy(train(small_config(None, tmp_path, dataset=section, total_timesteps=2)).run.path)
    other = TransitionDataset.load(tmp_path / "log.csv", columns={**columns, "obs": ["wet", "warm"]})
    with pytest.raises(DataError, match="obs are wet, warm, in that order, and the policy was trained on warm, wet"):
        policy.evaluate_offline(other, store=False)


@pytest.mark.parametrize("penalty", [None, -5.0, -7.0])
def test_rewards_that_were_read_in_another_way_are_told(tmp_path: Path, penalty: float | None) -> None:
    rng = np.random.default_rng(0)
    rows = [f"{rng.normal():.4f},{rng.uniform(-1, 1):.4f},{rng.normal():.4f},{int(n % 5 == 4)}" for n in range(60)]
    (tmp_path / "log.csv").write_text("\n".join(["obs,action,reward,terminated", *rows]) + "\n")
    section = {"source": "file", "path": str(tmp_path / "log.csv"), "at_termination": -5.0}
    policy = load_policy(train(small_config(None, tmp_path, dataset=section, total_timesteps=2)).run.path)
    other = TransitionDataset.load(tmp_path / "log.csv", at_termination=penalty)
    other.save(tmp_path / "other.npz")
    found = " ".join(policy.evaluate_offline(str(tmp_path / "other.npz"), **QUICK).cautions)
    differs = "rewards are read with at_termination: -7.0, and those trained on with at_termination: -5.0: what is"
    assert (differs in found) == (penalty == -7.0)
    assert ("rewards are read" in found) == (penalty == -7.0)  # of plain rewards, it is done as in training
    assert (f"it was written with at_termination: {penalty}, as it tells" in found) == (penalty is not None)


def test_costs_that_were_taken_for_rewards_are_refused(tmp_path: Path) -> None:
    """As nobody means a cost below zero; a file that does not tell, whose episodes return the same, passes."""
    rng = np.random.default_rng(0)
    rows = [f"{rng.normal():.4f},{rng.uniform(-1, 1):.4f},{rng.uniform(1, 2):.4f},{int(n % 5 == 4)}" for n in range(60)]
    (tmp_path / "log.csv").write_text("\n".join(["obs,action,eur,terminated", *rows]) + "\n")
    columns = {"obs": "obs", "actions": "action", "rewards": "eur", "terminations": "terminated"}
    TransitionDataset.load(tmp_path / "log.csv", columns=columns, rewards_are="costs").save(tmp_path / "own.npz")
    policy = load_policy(train(small_config(tmp_path / "own.npz", tmp_path, total_timesteps=2)).run.path)
    turned = TransitionDataset.load(tmp_path / "log.csv", columns=columns)
    turned.save(tmp_path / "turned.npz")
    with pytest.raises(DataError, match=r"turned.npz: costs were taken for rewards: episodes return 7\.\d+ on average"):
        policy.evaluate_offline(str(tmp_path / "turned.npz"), **QUICK)
    silent = TransitionDataset.from_dict(turned.to_dict() | {"rewards": -turned.rewards})
    silent.save(tmp_path / "silent.npz")
    told = " ".join(policy.evaluate_offline(str(tmp_path / "silent.npz"), **QUICK).cautions)
    assert "what is estimated is not what was trained for" not in told


def test_a_checkpoint_that_was_judged_stays_when_the_run_goes_on(data_file: Path, tmp_path: Path) -> None:
    """Somebody may have shipped it."""
    config = small_config(data_file, tmp_path, total_timesteps=20, checkpoint_interval=10, keep_checkpoints=1)
    run = train(config).run
    load_policy(run.path).evaluate_offline(**QUICK)
    manager.resume(run.path, total_timesteps=60)
    assert run.steps() == [20, 60]
    assert load_policy(run.path, 20).checkpoint.progress["steps"] == 20


@pytest.mark.parametrize(
    ("ends", "told"), [(0, "none of 20 episodes terminates:"), (1, "only 1 episode of 20"), (9, "")]
)
def test_terminations_that_are_too_few_to_be_judged(tmp_path: Path, ends: int, told: str) -> None:
    rng = np.random.default_rng(0)

    def of(terminated: int) -> TransitionDataset:
        obs, last = rng.normal(size=(101, 2)).astype(np.float32), np.arange(100) % 5 == 4
        over = last & (np.arange(100) < 5 * terminated)
        actions = rng.uniform(-1, 1, (100, 1)).astype(np.float32)
        return TransitionDataset(obs[:100], actions, obs[:100, 0], obs[1:], over, last & ~over)

    policy = load_policy(Trainer(small_config(None, tmp_path), dataset=of(9)).train().run.path)
    found = [note for note in policy.evaluate_offline(of(ends), store=False, **QUICK).cautions if "hardly tell" in note]
    assert [note.startswith(told) for note in found] == ([True] if told else [])
