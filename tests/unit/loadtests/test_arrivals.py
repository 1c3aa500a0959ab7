import random
import statistics
from itertools import pairwise

import pytest

from loadtests.plan.arrivals import FLAT, arrivals


def drawn(*, cv: float = 1.0, curve: tuple[float, ...] = FLAT, seed: int = 3) -> list[float]:
    return list(arrivals(per_s=20, duration_s=1000, cv=cv, curve=curve, chance=random.Random(seed)))


@pytest.mark.parametrize("cv", [0.3, 1.0, 4.0])
def test_arrivals_have_the_rate_and_the_burstiness_that_were_asked_for(cv: float) -> None:
    """Gaps have the wished mean and coefficient of variation, from nearly regular to bursts."""
    gaps = [after - before for before, after in pairwise(drawn(cv=cv))]
    assert statistics.fmean(gaps) == pytest.approx(1 / 20, rel=0.1)
    assert statistics.pstdev(gaps) / statistics.fmean(gaps) == pytest.approx(cv, rel=0.1)


def test_a_curve_moves_the_rate_and_keeps_the_number() -> None:
    """Four fifths of all requests come in the half of the run whose rate is four times the other's."""
    times = drawn(curve=(1, 4))
    assert len(times) == pytest.approx(20_000, rel=0.03)
    assert sum(at >= 500 for at in times) / len(times) == pytest.approx(0.8, abs=0.02)


def test_arrivals_rise_and_end_with_the_run() -> None:
    """Times rise from above zero to below the duration."""
    times = drawn(cv=2.0, curve=(3, 1, 2))
    assert times == sorted(times)
    assert times[0] > 0
    assert times[-1] < 1000


def test_the_seed_decides() -> None:
    """The same seed gives the same times, another one others."""
    assert drawn(seed=5) == drawn(seed=5)
    assert drawn(seed=5) != drawn(seed=6)
