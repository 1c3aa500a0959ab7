"""Figures over a time window from a Prometheus, or from metrics pages that are read repeatedly.

Names are sample names: ``_total`` for counters, ``_bucket``, ``_sum``, ``_count`` for histograms. A series without a
value is absent, never 0.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from statistics import fmean

from penstock.connectors.prometheus.client import Prometheus, QuerySpan
from penstock.connectors.prometheus.growth import Page, Point, growth, step, sum_of
from penstock.connectors.prometheus.page import Reading, everywhere, read
from penstock.domain.clock import Clock
from penstock.domain.command_error import CommandError
from penstock.telemetry.series import INSTANCE, STARTED, Sample, Series

JOB, UP = "job", "up"
"""Names that Prometheus adds for each target."""
_NOT_OURS = frozenset({"__name__", JOB})
_PARTS = ("_total", "_bucket", "_sum", "_count")
_POINTS = 60
"""Values of a counter that are read, however long the window is: a series that appeared and ended in between is
missed.
"""
_LEAST_STEP_S = 1.0
_READ_EVERY_S = 1.0
Key = frozenset[tuple[str, str]]
Labels = Mapping[str, str]


class PrometheusWindow:
    """The last ``seconds`` before now, or before ``until``. Increases are computed by ``growth``: Prometheus's own
    ``increase`` ignores the first value of a counter younger than the window.
    """

    def __init__(self, prometheus: Prometheus, seconds: float, until: float | None = None) -> None:
        self._prometheus, self.url = prometheus, prometheus.url
        self._until = round(until if until is not None else prometheus.instant("time()")[0].value or 0.0, 3)
        self._span = _even(self._until, seconds)
        self.seconds = self._span.end - self._span.begin
        self._created: dict[str, Mapping[Key, Mapping[float, float | None]]] = {}
        self._ranges: dict[str, tuple[Series, ...]] = {}

    @cached_property
    def seen_s(self) -> float:
        first = min((page.read_at for page in self._pages.values() if page.read_at is not None), default=self._until)
        return self._until - first

    def increases(self, name: str) -> tuple[Sample, ...]:
        """Growth of each series; None if a part may be older than the window."""
        return self.grown(name, self._span)

    def grown(self, name: str, span: QuerySpan) -> tuple[Sample, ...]:
        found = []
        for series in self.values(name):
            created = self._creations(name).get(_key(series.labels, without="le"), {})
            points = [Point(at, value, created.get(at)) for at, value in series.points if span.begin <= at <= span.end]
            grown = growth(points, self._pages.get(_page(series.labels), Page()), span.begin)
            if points:
                found.append(Sample(labels=_own(series.labels), value=grown))
        return tuple(found)

    def levels(self, name: str) -> tuple[Sample, ...]:
        found = self._prometheus.instant(f"avg_over_time({name}[{self.seconds:g}s])", self._until)
        return tuple(Sample(labels=_own(one.labels), value=one.value) for one in found)

    def values(self, name: str) -> tuple[Series, ...]:
        if name not in self._ranges:
            self._ranges[name] = self._prometheus.range(name, self._span)
        return self._ranges[name]

    def part(self, seconds: float, before_s: float) -> "PartOfWindow":
        """Ended ``before_s`` ago, without further queries of counters."""
        step_s, end = self._span.step_s, self._span.end
        steps, skipped = (max(least, round(one / step_s)) for one, least in ((seconds, 1), (before_s, 0)))
        end -= skipped * step_s
        return PartOfWindow(self, QuerySpan(begin=round(end - steps * step_s, 3), end=round(end, 3), step_s=step_s))

    @cached_property
    def _pages(self) -> Mapping[Key, Page]:
        read, started = (self._prometheus.range(name, self._span) for name in (UP, STARTED))
        starts = {_page(one.labels): _least(one) for one in started}
        firsts = {_page(one.labels): next((at for at, is_up in one.points if is_up), None) for one in read}
        return {key: Page(read_at=firsts.get(key), started_at=starts.get(key)) for key in {*firsts, *starts}}

    def _creations(self, name: str) -> Mapping[Key, Mapping[float, float | None]]:
        whole = next((name.removesuffix(part) for part in _PARTS if name.endswith(part)), name)
        if whole not in self._created:
            found = self._prometheus.range(f"{whole}_created", self._span)
            self._created[whole] = {_key(one.labels): dict(one.points) for one in found}
        return self._created[whole]


class PartOfWindow:
    """A part of a window, from the values that the whole has queried; gauges are means of these."""

    def __init__(self, whole: PrometheusWindow, span: QuerySpan) -> None:
        self._whole, self._span = whole, span
        self.seconds = span.end - span.begin

    def increases(self, name: str) -> tuple[Sample, ...]:
        return self._whole.grown(name, self._span)

    def levels(self, name: str) -> tuple[Sample, ...]:
        begin, end = self._span.begin, self._span.end
        seen = (
            (one, [value for at, value in one.points if begin < at <= end and value is not None])
            for one in self._whole.values(name)
        )
        return tuple(Sample(labels=_own(one.labels), value=fmean(values)) for one, values in seen if values)


class PagesWindow:
    def __init__(self, readings: Sequence[Reading]) -> None:
        if len(readings) < 2:  # noqa: PLR2004
            raise ValueError("a window needs two readings")
        self._readings = tuple(readings)
        self.seconds = readings[-1].at - readings[0].at

    def increases(self, name: str) -> tuple[Sample, ...]:
        """A counter that fell was restarted at 0. A new counter began at 0, unless its page was not read at the start:
        then its increase is unknown. A page that was not listed at the start belongs to a new process.
        """
        grown: dict[Key, float | None] = {}
        known: dict[str, Mapping[Key, float | None] | None] = dict.fromkeys(self._readings[0].silent)
        known |= {address: _by_series(page.get(name, ())) for address, page in self._readings[0].pages.items()}
        for reading in self._readings[1:]:
            for address, page in reading.pages.items():
                before, now = known.get(address, {}), _by_series(page.get(name, ()))
                for key, value in now.items():
                    more = None if before is None else step(before.get(key, 0.0), value)
                    grown[key] = sum_of(grown.get(key, 0.0), more)
                known[address] = now
        return _samples(grown)

    def levels(self, name: str) -> tuple[Sample, ...]:
        found: dict[Key, list[float]] = {}
        for reading in self._readings:
            for key, value in _by_series(everywhere(reading, name)).items():
                found.setdefault(key, []).extend([] if value is None else [value])
        return _samples({key: fmean(seen) if seen else None for key, seen in found.items()})


def watch(
    addresses: Callable[[], Sequence[str]], clock: Clock, seconds: float, sleep: Callable[[float], None] = time.sleep
) -> PagesWindow:
    """Now, each second and at the end, for gauges' means; ``CommandError`` if no process answers."""
    end = clock.monotonic() + seconds
    readings = [reading(addresses, clock)]
    while (left := end - clock.monotonic()) > 0:
        sleep(min(_READ_EVERY_S, left))
        readings.append(reading(addresses, clock))
    return PagesWindow(readings)


def reading(addresses: Callable[[], Sequence[str]], clock: Clock) -> Reading:
    found = read(addresses(), clock.monotonic())
    if not found.pages:
        raise CommandError(
            "No process of this home shows metrics.",
            do="Start the platform with `penstock up`, name its folder in PENSTOCK_HOME, or give a Prometheus with"
            " --prometheus.",
        )
    return found


def _by_series(samples: Iterable[Sample]) -> dict[Key, float | None]:
    return {frozenset(sample.labels.items()): sample.value for sample in samples}


def _samples(values: Mapping[Key, float | None]) -> tuple[Sample, ...]:
    return tuple(Sample(labels=dict(key), value=value) for key, value in values.items())


def _even(end: float, seconds: float) -> QuerySpan:
    step_s = max(_LEAST_STEP_S, math.ceil(seconds * 1e3 / _POINTS) / 1e3)
    return QuerySpan(begin=round(end - step_s * math.ceil(seconds / step_s), 3), end=end, step_s=step_s)


def _own(labels: Labels) -> dict[str, str]:
    return {name: value for name, value in labels.items() if name not in _NOT_OURS}


def _key(labels: Labels, without: str = "") -> Key:
    return frozenset((name, value) for name, value in labels.items() if name not in {"__name__", without})


def _page(labels: Labels) -> Key:
    return frozenset((name, labels.get(name, "")) for name in (JOB, INSTANCE))


def _least(series: Series) -> float | None:
    return min((value for _, value in series.points if value is not None), default=None)
