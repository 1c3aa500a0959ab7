"""The windows of burn-rate alerts: the data of ``slo/windows.yaml``.

A pair of windows fires if both burn faster than its factor, and the present window still burns.
"""

from dataclasses import dataclass
from enum import StrEnum

from penstock.domain.serving.spec import SpecReader

DAY_S = 86_400
_UNITS_S = {"m": 60, "h": 3600, "d": DAY_S}
_DURATION = r"[1-9][0-9]*[mhd]"
_EXPECTED = "a number of m, h or d, for example 30m"


class Severity(StrEnum):
    PAGE = "page"
    TICKET = "ticket"


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPair:
    """A long, a short and a present window in Prometheus' form, and the budget's share that they may not spend.

    ``now`` equals the short window if that is short enough.
    """

    severity: Severity
    long: str
    short: str
    now: str
    budget_ratio: float

    def factor(self, period_days: int) -> float:
        return self.budget_ratio * period_days * DAY_S / seconds(self.long)


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    periods_days: tuple[int, ...]
    least_bad_events: int
    now_ratio: float
    """The part of a pair's burn rate that its present window must show."""
    pairs: tuple[WindowPair, ...]

    @property
    def lengths(self) -> tuple[str, ...]:
        found = {window for pair in self.pairs for window in (pair.long, pair.short, pair.now)}
        return tuple(sorted(found, key=seconds))


def seconds(window: str) -> int:
    return int(window[:-1]) * _UNITS_S[window[-1]]


def parse(raw: object, source: str) -> Windows:
    """Return the windows, or raise ``SpecRefused``; ``source`` names it in messages."""
    spec = SpecReader(source, "", raw)
    spec.only(("periods_days", "least_bad_events", "now_ratio", "pairs"))
    return Windows(
        periods_days=tuple(spec.whole_numbers("periods_days")),
        least_bad_events=int(spec.number("least_bad_events", lambda n: n == int(n) and n >= 1, "a count above 0")),
        now_ratio=spec.number("now_ratio", lambda n: 0 < n <= 1, "a part of a burn rate, above 0 and at most 1"),
        pairs=tuple(_pair(one) for one in spec.each("pairs")),
    )


def _pair(spec: SpecReader) -> WindowPair:
    spec.only(("severity", "long", "short", "now", "budget_ratio"))
    long, short = (spec.matching(key, _DURATION, _EXPECTED) for key in ("long", "short"))
    if seconds(short) >= seconds(long):
        raise spec.wrong("short", f"{short} must be shorter than {long}")
    now = spec.matching("now", _DURATION, _EXPECTED) if "now" in spec.keys else short
    if seconds(now) > seconds(short):
        raise spec.wrong("now", f"{now} must be at most {short}")
    return WindowPair(
        severity=spec.choice("severity", Severity),
        long=long,
        short=short,
        now=now,
        budget_ratio=spec.number("budget_ratio", lambda n: 0 < n < 1, "a share between 0 and 1"),
    )
