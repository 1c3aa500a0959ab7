"""The schedule of attempts, in virtual time."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.jobs.webhook import Answer, SendError, Verdict
from penstock.jobs.schedule import DELAYS_S, JITTER, MOST_HOLD_S, after

BROKEN = Answer(status=500, error=SendError.STATUS)
OK = Answer(status=204)


def test_a_receiver_that_never_answers_is_tried_ten_times_in_three_days() -> None:
    """From 0 s over 5 s to a day: the published times, each later by chance, and then the end."""
    chance = random.Random(1)
    follows = [after(attempt, BROKEN, chance) for attempt in range(1, len(DELAYS_S) + 1)]
    begun = [sum(one.delay_s for one in follows[:attempt]) for attempt in range(len(follows))]
    assert [one.verdict for one in follows] == [Verdict.RETRIED] * 9 + [Verdict.FAILED]
    gaps = [later - earlier for earlier, later in pairwise(begun)]
    assert all(wanted <= gap <= wanted * (1 + JITTER) for gap, wanted in zip(gaps, DELAYS_S[1:], strict=True))
    assert 75 * 3600 < begun[-1] < 84 * 3600


def test_attempts_that_failed_together_come_back_apart() -> None:
    """A hundred deliveries of one second spread over a tenth of their delay."""
    chance = random.Random(2)
    delays = [after(3, BROKEN, chance).delay_s for _ in range(100)]
    assert max(delays) - min(delays) > 0.08 * DELAYS_S[3]


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_any_2xx_is_a_success(status: int) -> None:
    """The specification counts the status alone."""
    assert after(1, Answer(status=status), random.Random(0)).verdict is Verdict.DELIVERED


@pytest.mark.parametrize("status", [301, 302, 307, 308, 400, 404, 429, 500, 503])
def test_anything_else_is_tried_again(status: int) -> None:
    """Redirects, too, which are not followed."""
    follows = after(1, Answer(status=status, error=SendError.STATUS), random.Random(0))
    assert follows.verdict is Verdict.RETRIED


def test_gone_ends_at_once() -> None:
    """410 is the receiver's own wish to hear no more."""
    assert after(1, Answer(status=410, error=SendError.STATUS), random.Random(0)).verdict is Verdict.GONE


@given(
    attempt=st.integers(1, 9),
    wish_s=st.floats(0, 1e9),
    status=st.sampled_from([429, 500, 503]),
    seed=st.integers(0, 99),
)
def test_retry_after_only_delays(attempt: int, wish_s: float, status: int, seed: int) -> None:
    """A receiver's wish never brings an attempt forward, and silences its endpoint for an hour at most."""
    answer = Answer(status=status, error=SendError.STATUS, retry_after_s=wish_s)
    follows = after(attempt, answer, random.Random(seed))
    assert follows.delay_s >= max(DELAYS_S[attempt], min(wish_s, MOST_HOLD_S))
    assert follows.hold_s == min(wish_s, MOST_HOLD_S)


def test_a_success_holds_nobody() -> None:
    """A delivered event leaves neither delay nor silence."""
    follows = after(7, OK, random.Random(0))
    assert (follows.delay_s, follows.hold_s) == (0.0, 0.0)
