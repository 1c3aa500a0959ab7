"""Ranks among the incumbent's of late in the same stratum."""

import random

import pytest

from penstock.domain.rollout.arms import BUCKETS, Stratum, Times, bucket, price_bucket, stratum
from penstock.judging.strata import LEAST, MOST_S, SPAN_S, Ranks

SHORT, LONG = Stratum(5, 3), Stratum(11, 3)


def times(where: Stratum, *buckets: int) -> Times:
    return Times(where, tuple(sorted((one, buckets.count(one)) for one in set(buckets))))


def test_a_rank_is_the_share_of_the_incumbents_that_took_less() -> None:
    """Against a count by hand, with the two pseudo-counts in the middle."""
    chance, ranks = random.Random(3), Ranks()
    theirs = [chance.randrange(BUCKETS) for _ in range(200)]
    for at, one in enumerate(theirs):
        ranks.add(1 + at % SPAN_S if at < SPAN_S else SPAN_S, [times(SHORT, one)])
    for mine in (0, 40, BUCKETS - 1):
        below, same = sum(one < mine for one in theirs), theirs.count(mine)
        found, alone = ranks.scores([times(SHORT, mine)])
        assert list(found) == [pytest.approx((below + same / 2 + 1) / 202, abs=0.005)]
        assert (list(found.values()), alone) == ([1], 0)


def test_equals_have_a_rank_in_the_middle() -> None:
    """A candidate that is the incumbent has a mean of one half, whatever the times are."""
    chance, ranks = random.Random(4), Ranks()
    draw = [min(BUCKETS - 1, int(chance.expovariate(0.1))) for _ in range(2000)]
    ranks.add(1, [times(SHORT, *draw[:1000])])
    found, _ = ranks.scores([times(SHORT, *draw[1000:])])
    assert sum(score * count for score, count in found.items()) / 1000 == pytest.approx(0.5, abs=0.03)


def test_a_request_is_compared_in_its_own_cell_or_not_at_all() -> None:
    """Long prompts are not held against short ones, and few say little."""
    ranks = Ranks()
    ranks.add(1, [times(SHORT, *[10] * LEAST), times(LONG, *[60] * (LEAST - 1))])
    found, alone = ranks.scores([times(SHORT, 20, 20), times(LONG, 20), times(Stratum(1, 1), 20)])
    assert (sum(found.values()), alone) == (2, 2)


@pytest.mark.parametrize("sides", [((5, 1), (5, 4)), ((4, 3), (6, 3))])
def test_cells_on_both_sides_help_out_and_cancel_out(sides: tuple[tuple[int, int], tuple[int, int]]) -> None:
    """Half as slow on one side and twice on the other: an equal request is in the middle; one side alone is nobody."""
    chance, ranks = random.Random(5), Ranks()

    def draw(mean: float, many: int) -> list[int]:
        return [min(BUCKETS - 1, max(0, round(chance.gauss(mean, 5)))) for _ in range(many)]

    less, more = (Stratum(*one) for one in sides)
    ranks.add(1, [times(less, *draw(33.0, 40))])
    assert ranks.scores([times(SHORT, 40)]) == ({}, 1)
    ranks.add(2, [times(more, *draw(47.0, 15))])
    found, alone = ranks.scores([times(SHORT, *draw(40.0, 1000))])
    assert (sum(found.values()), alone) == (1000, 0)
    assert sum(score * count for score, count in found.items()) / 1000 == pytest.approx(0.5, abs=0.05)
    ranks.add(3, [times(SHORT, *draw(40.0, LEAST))])
    slower, _ = ranks.scores([times(SHORT, *draw(47.0, 1000))])
    assert sum(score * count for score, count in slower.items()) / 1000 > 0.75


def test_a_minute_later_those_that_are_not_needed_are_forgotten() -> None:
    """The load of then is not the load of now: who has enough of the last minute is compared with these alone."""
    ranks = Ranks()
    ranks.add(1, [times(SHORT, *[10] * 30)])
    ranks.add(SPAN_S + 1, [times(SHORT, *[30] * LEAST)])
    assert ranks.scores([times(SHORT, 20)]) == ({round(1 / (LEAST + 2), 2): 1}, 0)


def test_thin_traffic_is_compared_with_the_last_few_of_ten_minutes() -> None:
    """One each ten seconds: after a while there is company, and it is the newest; later nobody is left, nor memory."""
    ranks = Ranks()
    for number in range(40):
        ranks.add(10 * number, [times(SHORT, 10 if number < 20 else 30)])
        assert ranks.scores([times(SHORT, 20)])[1] == (number < LEAST - 1)
    assert ranks.scores([times(SHORT, 20)]) == ({round(1 / (LEAST + 2), 2): 1}, 0)
    ranks.add(391 + MOST_S, [])
    assert ranks.scores([times(SHORT, 20)]) == ({}, 1)
    assert ranks._strata == {}


def test_buckets_grow_by_a_tenth_and_end() -> None:
    """From 5 ms to some three minutes; whatever is longer is in the last one."""
    assert [bucket(seconds) for seconds in (0.0, 0.005, 0.00501, 1e9)] == [0, 0, 1, BUCKETS - 1]
    assert bucket(1.0 * 1.1) - bucket(1.0) == 1
    assert price_bucket(0) == price_bucket(1) == 0
    assert price_bucket(10**12) - price_bucket(10**11) in {24, 25}


def test_cells_tell_lengths_and_company_apart() -> None:
    """Each doubling of the prompt is a stratum, and each growth of the company by half of that."""
    assert [stratum(tokens, 0).prompt for tokens in (-5, 0, 1, 255, 256)] == [0, 0, 1, 8, 9]
    assert [stratum(0, running).running for running in (-1, 0, 1, 2, 3, 4, 6, 8)] == [0, 0, 1, 3, 4, 5, 6, 7]
