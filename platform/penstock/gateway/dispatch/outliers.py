"""Whether a worker fails its callers more than its peers do, although the platform's small probe passes. Pure.

Each tenant has one vote: its recent failure ratio. One tenant moves a worker's ratio by its part alone, and at least
``least_tenants`` must complain, over more shapes than one. A worker is compared with its peers: if all fail alike it is
the request or the model.

Trade-off: with one or two tenants such a fault is never found here; their requests are answered by retries.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.domain.ids import TenantId
from penstock.gateway.dispatch.charges import Origin, Shape

_COUNTS = 0.5
"""So much of a failure must be left for its tenant to count as one that complains."""
_MOST_SHAPES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlierSettings:
    least_ratio: float = 0.2
    """Failures to requests lately, as the mean over tenants."""
    least_requests: float = 8.0
    least_tenants: int = 3
    least_shapes: int = 2
    times_worse: float = 2.0
    """Than the mean of its peers."""
    most_ejected_ratio: float = 0.5
    """At most this share of the workers asked about is left alone for it."""
    half_life_s: float = 20.0
    most_tenants: int = 64
    """Who is remembered at one worker; the one with the fewest requests gives way."""


class Tally:
    __slots__ = ("_at", "_half_life_s", "bad", "good")

    def __init__(self, half_life_s: float, now: float) -> None:
        self._at = now
        self._half_life_s = half_life_s
        self.good = self.bad = 0.0

    def count(self, now: float, *, bad: bool) -> None:
        self.fade(now)
        if bad:
            self.bad += 1.0
        else:
            self.good += 1.0

    @property
    def requests(self) -> float:
        return self.good + self.bad

    @property
    def ratio(self) -> float:
        return self.bad / self.requests if self.requests else 0.0

    def fade(self, now: float) -> None:
        keep = math.exp2(-max(0.0, now - self._at) / self._half_life_s)
        self.good, self.bad, self._at = self.good * keep, self.bad * keep, now


class Votes:
    __slots__ = ("_of", "_settings", "_shapes")

    def __init__(self, settings: OutlierSettings) -> None:
        self._settings = settings
        self._of: dict[TenantId, Tally] = {}
        self._shapes: dict[Shape, float] = {}

    def good(self, who: TenantId, now: float) -> None:
        self._tally(who, now).count(now, bad=False)

    def bad(self, origin: Origin, now: float) -> None:
        self._tally(origin.tenant, now).count(now, bad=True)
        self._shapes.pop(origin.shape, None)
        self._shapes[origin.shape] = now
        if len(self._shapes) > _MOST_SHAPES:
            del self._shapes[next(iter(self._shapes))]

    def fade(self, now: float) -> None:
        for tally in self._of.values():
            tally.fade(now)

    @property
    def complaining(self) -> int:
        return sum(tally.bad >= _COUNTS for tally in self._of.values())

    @property
    def ratio(self) -> float:
        present = [tally.ratio for tally in self._of.values() if tally.requests >= _COUNTS]
        return sum(present) / len(present) if present else 0.0

    def is_evidence(self, now: float) -> bool:
        """Tell whether enough tenants and shapes failed, of enough requests."""
        ours = self._settings
        shapes = sum(now - at <= ours.half_life_s for at in self._shapes.values())
        requests = sum(tally.requests for tally in self._of.values())
        return (
            self.complaining >= ours.least_tenants and shapes >= ours.least_shapes and requests >= ours.least_requests
        )

    def _tally(self, who: TenantId, now: float) -> Tally:
        tally = self._of.get(who)
        if tally is None:
            if len(self._of) >= self._settings.most_tenants:
                del self._of[min(self._of, key=lambda one: self._of[one].requests)]
            tally = self._of[who] = Tally(self._settings.half_life_s, now)
        return tally


def is_outlier(own: Votes, peers: Sequence[float], now: float, settings: OutlierSettings) -> bool:
    """Tell whether a worker fails clearly more than its peers with these ratios; one alone is no outlier."""
    if not peers or not own.is_evidence(now):
        return False
    usual = sum(peers) / len(peers)
    return own.ratio >= settings.least_ratio and own.ratio >= settings.times_worse * usual


def most_ejected(workers: int, settings: OutlierSettings) -> int:
    return math.floor(workers * settings.most_ejected_ratio)
