"""EProcess: their wealth is what the formula says, hardly ever large by chance, and soon large where much is wrong."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.judging.e_process import FRACTIONS, RARE, EProcess, GainTable, mirrored


def test_the_wealth_is_the_mean_of_the_products() -> None:
    """Against the definition: the product over all scores of 1 + b (s - m), averaged over the bets."""
    chance = random.Random(1)
    scores = [round(chance.random(), 2) for _ in range(50)]
    bets = EProcess(forgets=False)
    for score in scores:
        bets.observe({score: 1}, 0.6)
    products = [math.prod(1 + fraction / 0.6 * (score - 0.6) for score in scores) for fraction in FRACTIONS]
    assert math.exp(bets.log_wealth) == pytest.approx(sum(products) / len(products))


def test_scores_that_come_together_count_as_one_by_one() -> None:
    """Without a cap a slot is its scores, whatever their order."""
    together, apart = EProcess(forgets=False), EProcess(forgets=False)
    together.observe({0.2: 2, 0.9: 3}, 0.6)
    for score in (0.9, 0.2, 0.9, 0.2, 0.9):
        apart.observe({score: 1}, 0.6)
    assert together.log_wealth == pytest.approx(apart.log_wealth)


def test_a_cap_lets_many_count_as_few() -> None:
    """A thousand neighbours that are all bad are one witness where one is what counts."""
    many, one = EProcess(forgets=True), EProcess(forgets=True)
    many.observe({1.0: 1000}, 0.6, cap=1.0)
    one.observe({1.0: 1}, 0.6)
    assert many.log_wealth == pytest.approx(one.log_wealth)


def test_nothing_is_evidence_of_nothing() -> None:
    """An empty slot changes nothing."""
    bets = EProcess(forgets=True)
    bets.observe({}, 0.6)
    bets.observe({0.5: 0}, 0.6)
    assert bets.log_wealth == pytest.approx(0.0)


@pytest.mark.parametrize("forgets", [False, True])
def test_chance_alone_hardly_ever_wins(forgets: bool) -> None:
    """Where scores have the tolerated mean, odds of 100 are reached in at most one run (or restart) of 100 (Ville)."""
    chance, reached, runs, steps = random.Random(2), 0, 400, 200
    for _ in range(runs):
        bets = EProcess(forgets=forgets)
        for _ in range(steps):
            bets.observe({float(chance.random() < 0.3): 1}, 0.3)
            if bets.log_wealth >= math.log(100.0):
                reached += 1
                break
    allowed = runs * 0.01 if not forgets else runs * steps * 0.01
    assert reached <= allowed + 3 * math.sqrt(allowed)


def test_ten_good_minutes_need_not_be_paid_back() -> None:
    """A watch finds what begins late as soon as what was there from the start; a proof would not."""

    def steps_to(good: int, *, forgets: bool) -> int:
        bets = EProcess(forgets=forgets)
        for _ in range(good):
            bets.observe({0.3: 1}, 0.6)
        for step in range(1, 2000):
            bets.observe({0.9: 1}, 0.6)
            if bets.log_wealth >= math.log(1e5):
                return step
        return 2000

    assert steps_to(600, forgets=True) == steps_to(0, forgets=True)
    assert steps_to(600, forgets=False) > 10 * steps_to(0, forgets=False)


def test_rare_events_are_found_by_timid_bets() -> None:
    """One in twenty against one in seventy: the bets for rare events win where the others lose it all."""

    def wealth(fractions: tuple[float, ...]) -> float:
        bets = EProcess(fractions, forgets=False)
        for number in range(400):
            bets.observe({float(number % 20 == 0): 1}, 0.0144)
        return bets.log_wealth

    assert wealth(RARE) > math.log(1e3)


def test_turned_scores_are_the_same_the_other_way_round() -> None:
    """What is near 1 is near 0."""
    assert mirrored({0.25: 3, 1.0: 1}) == {0.75: 3, 0.0: 1}


ranks = st.integers(0, 100).map(lambda place: place / 100)


@given(st.lists(st.dictionaries(ranks, st.integers(1, 5), min_size=1), max_size=9))
def test_sides_together_win_what_each_wins_alone(slots: list[dict[float, int]]) -> None:
    """One row for all sides is quicker, and nothing else: harm forgets, a proof is mirrored round, means differ."""
    means, cap = (0.555, 0.575, 0.66), 1.0
    together, alone = [[EProcess(forgets=True) for _ in means] + [EProcess(forgets=False)] for _ in range(2)]
    rows = GainTable([*((mean, False) for mean in means), (1.0 - 0.555, True)])
    for counts in slots:
        weight = min(1.0, cap / sum(counts.values()))
        for side, gains in zip(together, rows.gains(counts), strict=True):
            side.add(gains, weight)
        for side, mean in zip(alone, means, strict=False):
            side.observe(counts, mean, cap)
        alone[-1].observe(mirrored(counts), 1.0 - 0.555, cap)
    assert [one.log_wealth for one in together] == pytest.approx([one.log_wealth for one in alone])
    for odds in (-1.0, 0.0, 0.3, 2.0):
        assert [one.reaches(odds) for one in together] == [one.log_wealth >= odds for one in together]
