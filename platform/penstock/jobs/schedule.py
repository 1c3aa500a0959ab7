"""When a delivery is tried again: the schedule of Standard Webhooks, receivers' wishes, the end.

Trade-off: the schedule is the event's, not the endpoint's: each waiting event is tried on its own, so a receiver that
is back gets all of them within their next delay, and nothing has to be ordered.
"""

import random
from typing import Final

from penstock.domain.jobs.webhook import Answer, Next, Verdict

DELAYS_S: Final = (0.0, 5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
"""Seconds between an attempt's end and the next, from the event on: ten attempts over 75.6 hours."""
JITTER = 0.1
"""The part of a delay that chance adds at most: what failed together is not tried again together."""
MOST_HOLD_S = 3_600.0
"""Seconds for which ``Retry-After`` silences an endpoint at most: a receiver's mistake there should not last a day."""
GONE = 410


def is_success(answer: Answer) -> bool:
    return answer.error is None and 200 <= answer.status < 300  # noqa: PLR2004


def after(attempt: int, answer: Answer, chance: random.Random) -> Next:
    """Return what follows attempt ``attempt`` (from 1).

    ``Retry-After`` never brings an attempt forward, so the schedule's length holds.
    """
    if is_success(answer):
        return Next(verdict=Verdict.DELIVERED)
    if answer.status == GONE:
        return Next(verdict=Verdict.GONE)
    hold_s = min(MOST_HOLD_S, max(0.0, answer.retry_after_s or 0.0))
    if attempt >= len(DELAYS_S):
        return Next(verdict=Verdict.FAILED, hold_s=hold_s)
    delay_s = DELAYS_S[attempt] * (1.0 + chance.uniform(0.0, JITTER))
    return Next(verdict=Verdict.RETRIED, delay_s=max(delay_s, hold_s), hold_s=hold_s)
