"""Was the generator itself the bottleneck? Its figures then say more of itself than of the target, and are no verdict.

Latencies count from planned times, so a late generator never flatters the target. It can wrong it, and it can ask less
at once than was planned.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loadtests.drive.records import Health, Record
from loadtests.verdict.figures import quantile
from penstock.domain.serving.slo import Indicator, SloTier

OF_FIRST_TOKEN, OF_GAP = 0.1, 0.25
"""What share of the tightest bound on a first token, or between tokens, may be the generator's own at p99."""
P99 = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    """How the generator kept time, in seconds at p99 and at worst; None if nothing was sent."""

    planned: int
    held: int
    lag_p99_s: float | None
    lag_max_s: float | None
    pulse_p99_s: float | None
    faults: tuple[str, ...]
    """Why its figures are no verdict; empty where they are."""


def judged(records: Sequence[Record], health: Health | None, tiers: Sequence[SloTier]) -> Generator:
    """Return how the generator did, beside the tightest of these tiers' bounds."""
    lags = [record.lag_s for record in records if record.is_first]
    pulses = [late_s for _, late_s in health.pulses] if health else []
    lag_p99_s, pulse_p99_s = quantile(lags, P99), quantile(pulses, P99)
    first_s = _tightest(tiers, Indicator.TTFT, Indicator.LATENCY) * OF_FIRST_TOKEN
    gap_s = _tightest(tiers, Indicator.ITL) * OF_GAP
    faults = [
        *_unfinished(health),
        *_too_late("requests were sent", lag_p99_s, first_s),
        *_too_late("the generator woke up", pulse_p99_s, min(first_s, gap_s)),
    ]
    return Generator(
        planned=health.sessions if health else 0,
        held=health.held if health else 0,
        lag_p99_s=lag_p99_s,
        lag_max_s=max(lags, default=None),
        pulse_p99_s=pulse_p99_s,
        faults=tuple(faults),
    )


def _tightest(tiers: Sequence[SloTier], *indicators: Indicator) -> float:
    bounds = (tier.within_s(indicator) for tier in tiers for indicator in indicators)
    return min((bound for bound in bounds if bound), default=math.inf)


def _unfinished(health: Health | None) -> Iterator[str]:
    if health is None:
        yield "the generator ended before its plan did"
    elif health.held < health.sessions:
        yield f"{health.sessions - health.held} of {health.sessions} planned sessions were never held to their end"


def _too_late(what: str, p99_s: float | None, allowed_s: float) -> Iterator[str]:
    if p99_s is None:
        yield "nothing was sent"
    elif p99_s > allowed_s:
        late, allowed = f"{1e3 * p99_s:.0f} ms", f"{1e3 * allowed_s:.0f} ms"
        yield f"{what} {late} late at p99, {allowed} are allowed; give it a quieter machine"
