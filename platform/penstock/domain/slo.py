"""Promises as data: what each tier of callers may expect, in numbers that everything else reads.

Admission takes its default deadlines from here, the gateway its histograms' meaning, benches and load tests their
verdicts; rules and dashboards are made from the same objects. ``parse`` is the one place that judges a specification;
reading files is its callers' business.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite

from penstock.domain.model import Tier


class Indicator(StrEnum):
    """What is counted as good or bad; each name is a key in a specification."""

    AVAILABILITY = "availability"
    """A request ends without the platform being at fault."""
    STREAM_COMPLETION = "stream_completion"
    """A stream that began ends with its terminal event."""
    TTFT = "ttft"
    """Arrival to first token of a stream."""
    ITL = "itl"
    """Time between two tokens of a stream."""
    LATENCY = "latency"
    """Arrival to last byte of a unary answer."""

    @property
    def is_timed(self) -> bool:
        """True where good means: within so many seconds."""
        return self in _TIMED


_TIMED = frozenset({Indicator.TTFT, Indicator.ITL, Indicator.LATENCY})


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """One promise: this share of events is good; for timed indicators good means within ``within_s``."""

    indicator: Indicator
    good_ratio: float
    within_s: float = 0.0
    says: str = ""

    @property
    def error_budget_ratio(self) -> float:
        """The share of events that may be bad."""
        return 1.0 - self.good_ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class SloTier:
    """One tier's promises, over a rolling window. ``deadline_s`` is what a request gets that names none itself."""

    tier: Tier
    says: str
    window_days: int
    deadline_s: float
    objectives: tuple[Objective, ...]

    def objective(self, indicator: Indicator) -> Objective | None:
        """Return the promise about this indicator, None where there is none."""
        return next((one for one in self.objectives if one.indicator is indicator), None)

    def within_s(self, indicator: Indicator) -> float:
        """Return a timed indicator's bound in seconds; 0 where nothing is promised about it."""
        found = self.objective(indicator)
        return found.within_s if found else 0.0


class SpecRefused(Exception):
    """An SLO specification is wrong; the message names source, key and remedy."""


REQUIRED = {
    Tier.CHAT: (Indicator.AVAILABILITY, Indicator.STREAM_COMPLETION, Indicator.TTFT, Indicator.ITL),
    Tier.EMBEDDING: (Indicator.AVAILABILITY, Indicator.LATENCY),
}
"""What each tier must promise at least."""
_KEYS = ("tier", "says", "window_days", "deadline_s", "objectives")
_MAX_WINDOW_DAYS = 90
_MAX_SECONDS = 86_400.0


def parse(raw: object, source: str) -> SloTier:
    """Return the tier that a specification describes, or raise ``SpecRefused``; ``source`` names it in messages."""
    spec = _Reader(source, "", raw)
    spec.only(_KEYS)
    tier = spec.choice("tier", Tier)
    objectives = spec.inner("objectives")
    objectives.only(tuple(Indicator))
    found = tuple(_objective(objectives.inner(key), Indicator(key)) for key in objectives.keys)
    missing = [name for name in REQUIRED[tier] if name not in {one.indicator for one in found}]
    if missing:
        raise objectives.wrong(missing[0], f"tier {tier} must promise this; add it")
    return SloTier(
        tier=tier,
        says=spec.text("says"),
        window_days=int(spec.number("window_days", lambda n: n == int(n) and 1 <= n <= _MAX_WINDOW_DAYS, "1 to 90")),
        deadline_s=spec.number("deadline_s", lambda n: 0 < n <= _MAX_SECONDS, "seconds above 0, at most a day"),
        objectives=found,
    )


def parse_all(specs: Mapping[str, object]) -> dict[Tier, SloTier]:
    """Return all tiers by name from raw specifications by source; each tier exactly once."""
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


def _objective(spec: "_Reader", indicator: Indicator) -> Objective:
    spec.only(("good_ratio", "within_s", "says") if indicator.is_timed else ("good_ratio", "says"))
    return Objective(
        indicator=indicator,
        good_ratio=spec.number("good_ratio", lambda n: 0 < n < 1, "a share between 0 and 1, for example 0.999"),
        within_s=spec.number("within_s", lambda n: 0 < n <= _MAX_SECONDS, "seconds above 0")
        if indicator.is_timed
        else 0.0,
        says=spec.text("says"),
    )


class _Reader:
    """Reads one mapping of a specification and names the place of whatever is wrong in it."""

    def __init__(self, source: str, path: str, raw: object) -> None:
        self._source, self._path = source, path
        if not isinstance(raw, Mapping):
            raise SpecRefused(f"{source}: {path or 'the file'}: must hold keys and values")
        self._values: Mapping[object, object] = raw

    @property
    def keys(self) -> list[str]:
        return [str(key) for key in self._values]

    def wrong(self, key: str, remedy: str) -> SpecRefused:
        place = f"{self._path}.{key}" if self._path else key
        return SpecRefused(f"{self._source}: {place}: {remedy}")

    def only(self, allowed: tuple[str, ...]) -> None:
        for key in self.keys:
            if key not in allowed:
                raise self.wrong(key, f"no such key here; there are {', '.join(allowed)}")

    def inner(self, key: str) -> "_Reader":
        place = f"{self._path}.{key}" if self._path else key
        return _Reader(self._source, place, self._value(key))

    def text(self, key: str) -> str:
        value = self._value(key)
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(key, "say it in a sentence")
        return value

    def choice(self, key: str, choices: type[Tier]) -> Tier:
        value = self._value(key)
        if value not in list(choices):
            raise self.wrong(key, f"{value!r} is none of {', '.join(choices)}")
        return choices(str(value))

    def number(self, key: str, allows: Callable[[float], bool], expected: str) -> float:
        value = self._value(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or not allows(value):
            raise self.wrong(key, f"{value!r} must be {expected}")
        return float(value)

    def _value(self, key: str) -> object:
        if key not in self._values:
            raise self.wrong(key, "is missing; add it")
        return self._values[key]
