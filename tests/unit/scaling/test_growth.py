"""Growth over a start, as the last hour had it."""

import itertools

import pytest

from penstock.scaling.growth import History, quantile

LEAD_S = 6 * 10.0


def samples(count: int, every: int, factor: float) -> tuple[float, ...]:
    """Return work that multiplies by ``factor`` over the lead in one of ``every`` samples, and is steady else."""
    return tuple(factor if number % every == 0 else 1.0 for number in range(count))


def test_few_samples_teach_nothing() -> None:
    """Until half an hour was seen, no growth is provided for: one crowd is no rule."""
    rising = tuple(1.0 + number for number in range(180 + 5))
    assert quantile(rising, LEAD_S) == 1.0
    assert quantile((*rising, 500.0), LEAD_S) > 1.0


def test_the_quantile_is_the_growth_of_one_in_twenty() -> None:
    """A growth that came in one of fifteen starts is provided for, one of thirty is not."""
    assert quantile(samples(300, 15, 1.5), LEAD_S) == 1.5
    assert quantile(samples(300, 30, 1.5), LEAD_S) == 1.0


def test_exactly_the_stated_part_is_covered() -> None:
    """Of a hundred distinct growths, ninety-five are at most the quantile."""
    grown = [1.0 + number / 1000 for number in range(200)]
    pairs = tuple(value for one in grown for value in (1.0, one))
    found = quantile(pairs, 10.0)
    rates = [after / before for before, after in itertools.pairwise(pairs)]
    assert sum(one <= found for one in rates) == pytest.approx(0.95 * len(rates), abs=1)


def test_growth_is_bounded_and_never_below_one() -> None:
    """A falling demand asks for no fewer workers than it has now, an explosion for at most three times."""
    assert quantile(tuple(1000.0 - number for number in range(300)), LEAD_S) == 1.0
    assert quantile(tuple(1.5**number for number in range(300)), LEAD_S) == 3.0


def test_growth_from_nothing_is_none() -> None:
    """Zero work before has no ratio; what begins is held and asked at once."""
    assert quantile((0.0,) * 300 + (5.0,) * 10, LEAD_S) == 1.0


def test_a_sample_is_taken_once_in_its_time_and_the_oldest_go() -> None:
    """Ticks between samples change nothing, and an hour is kept."""
    found = History()
    for tick in range(2 * (360 + 50)):
        found = found.after(float(tick), tick * 10.0 / 2, LEAD_S)
    assert len(found.samples) == 360
    assert found.samples[-1] - found.samples[-2] == 2.0
    assert found.after(1.0, found.sampled_at + 10.0 / 2, LEAD_S) is found


def test_a_longer_start_provides_for_more() -> None:
    """Demand that rises steadily rises further over a longer start."""
    rising = tuple(100.0 + number for number in range(300))
    assert quantile(rising, 300.0) > quantile(rising, 60.0) > 1.0
