"""SLOs as data: the objectives of each tier, read by all other rooms.

Admission's default deadlines, the gateway's histogram bounds and the verdicts of benches and load tests come from here;
alert rules and dashboards are generated from the same objects.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from penstock.domain.models.model import Tier
from penstock.domain.serving.spec import SpecReader, SpecRefused


class Indicator(StrEnum):
    """Each name is a key in an SLO specification."""

    AVAILABILITY = "availability"
    """A request ends without the platform being at fault. A missed deadline is its fault, except a caller's deadline
    shorter than the other promises take (``Pace``).
    """
    STREAM_COMPLETION = "stream_completion"
    """A stream that began ends with its terminal event."""
    TTFT = "ttft"
    """From arrival of the whole request to the first token of a stream: the caller's upload does not count."""
    ITL = "itl"
    """Time between two tokens of a stream."""
    LATENCY = "latency"
    """From arrival of the whole request to the last byte of an answer; refused and abandoned requests are not counted.
    """
    TURNAROUND = "turnaround"
    """A job, or a line of a batch, is done by its own deadline. Cancelled ones, and those at fault themselves, are not
    counted.
    """

    @property
    def is_timed(self) -> bool:
        return self in _TIMED


_TIMED = frozenset({Indicator.TTFT, Indicator.ITL, Indicator.LATENCY})


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """At least this share of events is good; a timed event is good within ``within_s``."""

    indicator: Indicator
    good_ratio: float
    within_s: float = 0.0
    says: str = ""

    @property
    def error_budget_ratio(self) -> float:
        return 1.0 - self.good_ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Promised seconds for the first token (or all of the answer), and for each further token. A missed deadline breaks
    no promise if it was shorter than the answer's promised time.
    """

    first_s: float
    each_s: float = 0.0

    def of(self, tokens: float) -> float:
        return self.first_s + self.each_s * tokens


class TimedPromise(NamedTuple):
    """Seconds until the first token and between further ones, 0 without a promise; and the part that may be late."""

    first_s: float = 0.0
    each_s: float = 0.0
    late_ratio: float = 0.0


NO_PROMISE = TimedPromise()


@dataclass(frozen=True, slots=True, kw_only=True)
class SloTier:
    """Objectives over a rolling window.

    ``deadline_s`` applies to requests without a deadline; they also wait for the engine no longer than
    ``queue_timeout_s``; 0 leaves that to the deadline.
    """

    tier: Tier
    says: str
    window_days: int
    deadline_s: float
    objectives: tuple[Objective, ...]
    queue_timeout_s: float = 0.0

    def objective(self, indicator: Indicator) -> Objective | None:
        return next((one for one in self.objectives if one.indicator is indicator), None)

    @property
    def pace(self) -> Pace:
        """Return the token times promised; without timed objectives, an answer within its deadline."""
        whole_s, first_s = self.within_s(Indicator.LATENCY), self.within_s(Indicator.TTFT)
        return Pace(first_s=whole_s or first_s or self.deadline_s, each_s=self.within_s(Indicator.ITL))

    @property
    def timed(self) -> TimedPromise:
        """The worker's part of the promise; all zeros without a timed objective."""
        whole, first, each = (self.objective(one) for one in (Indicator.LATENCY, Indicator.TTFT, Indicator.ITL))
        found = [one for one in (first or whole, each) if one is not None]
        return TimedPromise(
            first_s=found[0].within_s if first or whole else 0.0,
            each_s=each.within_s if each else 0.0,
            late_ratio=min((one.error_budget_ratio for one in found), default=0.0),
        )

    def within_s(self, indicator: Indicator) -> float:
        found = self.objective(indicator)
        return found.within_s if found else 0.0


REQUIRED = {
    Tier.CHAT: (Indicator.AVAILABILITY, Indicator.STREAM_COMPLETION, Indicator.TTFT, Indicator.ITL),
    Tier.EMBEDDING: (Indicator.AVAILABILITY, Indicator.LATENCY),
    Tier.CLASSIC: (Indicator.AVAILABILITY, Indicator.LATENCY),
}
"""The least that a tier must promise; any other tier must promise availability."""
_KEYS = ("tier", "says", "window_days", "deadline_s", "queue_timeout_s", "objectives")
_MAX_WINDOW_DAYS = 90
_MAX_SECONDS = 86_400.0


def parse(raw: object, source: str) -> SloTier:
    """Raises ``SpecRefused``; ``source`` names the specification in messages."""
    spec = SpecReader(source, "", raw)
    spec.only(_KEYS)
    tier = spec.choice("tier", Tier)
    objectives = spec.inner("objectives")
    objectives.only(tuple(Indicator))
    found = tuple(_objective(objectives.inner(key), Indicator(key)) for key in objectives.keys)
    promised = {one.indicator for one in found}
    missing = [name for name in REQUIRED.get(tier, (Indicator.AVAILABILITY,)) if name not in promised]
    if missing:
        raise objectives.wrong(missing[0], f"tier {tier} must promise this; add it")
    return SloTier(
        tier=tier,
        says=spec.text("says"),
        window_days=int(spec.number("window_days", lambda n: n == int(n) and 1 <= n <= _MAX_WINDOW_DAYS, "1 to 90")),
        deadline_s=spec.number("deadline_s", lambda n: 0 < n <= _MAX_SECONDS, "seconds above 0, at most a day"),
        queue_timeout_s=_queue_timeout_s(spec),
        objectives=found,
    )


def _queue_timeout_s(spec: SpecReader) -> float:
    if "queue_timeout_s" not in spec.keys:
        return 0.0
    most = spec.number("deadline_s", lambda n: n > 0, "seconds above 0")
    return spec.number("queue_timeout_s", lambda n: 0 < n < most, "seconds above 0, below deadline_s")


def parse_all(specs: Mapping[str, object]) -> dict[Tier, SloTier]:
    """Parse specifications by source; each tier must occur exactly once."""
    found: dict[Tier, SloTier] = {}
    for source, raw in sorted(specs.items()):
        tier = parse(raw, source)
        if tier.tier in found:
            raise SpecRefused(f"{source}: tier: {tier.tier} is described twice; keep one file for each tier")
        found[tier.tier] = tier
    for name in Tier:
        if name not in found:
            raise SpecRefused(f"no file describes tier {name}; add one to slo/specs")
    return found


def _objective(spec: SpecReader, indicator: Indicator) -> Objective:
    spec.only(("good_ratio", "within_s", "says") if indicator.is_timed else ("good_ratio", "says"))
    return Objective(
        indicator=indicator,
        good_ratio=spec.number("good_ratio", lambda n: 0 < n < 1, "a share between 0 and 1, for example 0.999"),
        within_s=spec.number("within_s", lambda n: 0 < n <= _MAX_SECONDS, "seconds above 0")
        if indicator.is_timed
        else 0.0,
        says=spec.text("says"),
    )
