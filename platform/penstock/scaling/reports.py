"""Merges gateways' reports into demand: increments of counters by second, and the names of silent gateways.

Seconds are the controller's: a gateway's clock can't place its requests in the past or the future. Counters that begin
anew count from zero. Increments of a gap are spread over it.

Reports are not signed, so each process counts by itself: a false report under a gateway's name adds demand, and mutes
and ends nothing.

Trade-off: a new leader's rates are too low for ``RATE_S``; it removes no worker for longer than that.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from penstock.domain.fleet.demand import Counted, Demand, GatewayReport, HeldNow, Rate, VersionDemand
from penstock.domain.ids import VersionId
from penstock.domain.tenancy.standing import Standing
from penstock.scaling.constants import (
    GONE_S,
    JUDGED_S,
    MOST_COUNTED,
    MOST_GATEWAYS,
    MOST_TOLD,
    MOST_TOLD_S,
    RATE_S,
    SILENT_S,
)

BUYS = frozenset({Standing.FREE, Standing.PAID, Standing.INTERACTIVE})
"""Standings whose requests ask for workers. Batch work, yielding requests and shadow copies use what others leave."""
Key = tuple[VersionId, Standing]
Process = tuple[str, float]
"""A gateway's name, and when its process began."""


class _Added(NamedTuple):
    requests: float = 0.0
    prompt_tokens: float = 0.0
    output_tokens: float = 0.0
    answered: float = 0.0
    late: float = 0.0
    read_tokens: float = 0.0
    cached_tokens: float = 0.0

    def plus(self, other: "_Added", part: float = 1.0) -> "_Added":
        return _Added(*(mine + part * its for mine, its in zip(self, other, strict=True)))


@dataclass(slots=True)
class _Gateway:
    report: GatewayReport
    heard_at: float
    counted: Mapping[Key, Counted]


@dataclass(slots=True)
class Reports:
    """The newest report of each gateway, and increments of the last ``JUDGED_S`` by whole second."""

    _known: dict[Process, _Gateway] = field(default_factory=dict)
    _added: dict[Key, dict[int, _Added]] = field(default_factory=lambda: defaultdict(dict))
    _cpu_s: dict[int, float] = field(default_factory=dict)
    """CPU seconds of all gateways, by whole second."""

    def take(self, report: GatewayReport, now: float) -> bool:
        """Take a report at ``now``, in awake seconds; False if it is unsound or repeats the process's last."""
        if not _is_sound(report):
            return False
        known = self._known.get(_process(report))
        if known is not None and known.report == report:
            return False
        if known is None and not self._has_place(now):
            return False
        told = _Gateway(report, now, {(one.version, one.standing): one for one in report.counted})
        elders = [one for one in self._known.values() if one.report.gateway == report.gateway] if known is None else []
        is_new = report.number == 1 or any(one.report.began < report.began for one in elders)
        if known is not None or is_new:
            heard_at = max((one.heard_at for one in (elders if known is None else [known])), default=now)
            if not self._count(told, known, heard_at):
                return False
        self._known[_process(report)] = told
        return True

    def demand(self, now: float) -> Demand:
        self._known = {process: one for process, one in self._known.items() if now - one.heard_at < GONE_S}
        self._forget(now)
        speaking = self._speaking(now)
        names = {one.report.gateway for one in speaking}
        silent = [one for one in self._unended() if one.report.gateway not in names]
        return Demand(
            versions=self._versions(speaking, now),
            missing=tuple(sorted({one.report.gateway for one in silent})),
            gateways=len({one.report.gateway for one in speaking if not one.report.is_runner}),
            loop_lag_s=max((one.report.loop_lag_s for one in speaking), default=0.0),
            request_cpu_s=self._request_cpu_s(),
            age_s=max((now - one.heard_at for one in (*speaking, *silent)), default=0.0),
        )

    def held(self, now: float) -> frozenset[VersionId]:
        return frozenset(held.version for held, _ in _held(self._speaking(now), now))

    def _count(self, told: _Gateway, before: _Gateway | None, heard_at: float) -> bool:
        """``before`` is of the same process; False if it counted faster than one could, or a part above its whole."""
        was, now = before.counted if before is not None else {}, told.heard_at
        added = {key: _increment(was.get(key), one) for key, one in told.counted.items()}
        most = MOST_TOLD_S * len(_seconds(heard_at, now))
        if any(max(more) > most or not _agrees(more) for more in added.values()):
            return False
        self._spend(max(0.0, told.report.cpu_s - (before.report.cpu_s if before is not None else 0.0)), heard_at, now)
        for key, more in added.items():
            self._add(key, more, heard_at, now)
        return True

    def _has_place(self, now: float) -> bool:
        """Beyond the bound the process that is silent for longest gives way: false names shut out no gateway."""
        if len(self._known) >= MOST_GATEWAYS:
            process, oldest = min(self._known.items(), key=lambda item: item[1].heard_at)
            if oldest.report.has_ended or _is_silent(oldest, now):
                del self._known[process]
        return len(self._known) < MOST_GATEWAYS

    def _unended(self) -> list[_Gateway]:
        return [one for one in self._known.values() if not one.report.has_ended]

    def _speaking(self, now: float) -> list[_Gateway]:
        return [one for one in self._unended() if not _is_silent(one, now)]

    def _add(self, key: Key, added: _Added, heard_at: float, now: float) -> None:
        """Spread increments over the seconds since the report before."""
        if not any(added):
            return
        of, seconds = self._added[key], _seconds(heard_at, now)
        for second in seconds[-JUDGED_S:]:
            of[second] = of.get(second, _Added()).plus(added, 1 / len(seconds))

    def _spend(self, cpu_s: float, heard_at: float, now: float) -> None:
        seconds = _seconds(heard_at, now)
        for second in seconds[-JUDGED_S:]:
            self._cpu_s[second] = self._cpu_s.get(second, 0.0) + cpu_s / len(seconds)

    def _request_cpu_s(self) -> float:
        requests = sum(added.requests for seconds in self._added.values() for added in seconds.values())
        return sum(self._cpu_s.values()) / requests if requests else 0.0

    def _forget(self, now: float) -> None:
        oldest = math.floor(now) - JUDGED_S
        self._cpu_s = {second: spent for second, spent in self._cpu_s.items() if second > oldest}
        for key, seconds in list(self._added.items()):
            kept = {second: added for second, added in seconds.items() if second > oldest}
            if kept:
                self._added[key] = kept
            else:
                del self._added[key]

    def _versions(self, speaking: Iterable[_Gateway], now: float) -> Mapping[VersionId, VersionDemand]:
        found: dict[VersionId, VersionDemand] = defaultdict(VersionDemand)
        for (version, standing), seconds in self._added.items():
            known, judged = found[version], _sum(seconds, 0)
            lately = _sum(seconds, math.floor(now - RATE_S))
            rate = Rate(
                requests=lately.requests / RATE_S,
                prompt_tokens=lately.prompt_tokens / RATE_S,
                output_tokens=lately.output_tokens / RATE_S,
            )
            buys = standing in BUYS
            found[version] = replace(
                known,
                rates={**known.rates, standing: rate},
                answered=known.answered + round(judged.answered * buys),
                late=known.late + round(judged.late * buys),
                read_tokens=known.read_tokens + round(judged.read_tokens),
                cached_tokens=known.cached_tokens + round(judged.cached_tokens),
            )
        for held, age_s in _held(speaking, now):
            known = found[held.version]
            found[held.version] = replace(
                known,
                held_requests=known.held_requests + held.requests,
                held_tokens=known.held_tokens + held.tokens,
                held_s=max(known.held_s, held.oldest_s + age_s),
            )
        return dict(found)


def _held(speaking: Iterable[_Gateway], now: float) -> Iterator[tuple[HeldNow, float]]:
    for one in speaking:
        for held in one.report.held:
            yield held, now - one.heard_at


def _sum(seconds: Mapping[int, _Added], after: int) -> _Added:
    chosen = [added for second, added in seconds.items() if second > after]
    return _Added(*map(sum, zip(*chosen, strict=True))) if chosen else _Added()


def _seconds(heard_at: float, now: float) -> range:
    """Return the whole seconds since the report before, at least one."""
    return range(math.floor(heard_at) + 1, math.floor(now) + 1) or range(math.floor(now), math.floor(now) + 1)


def _increment(before: Counted | None, after: Counted) -> _Added:
    was = before or Counted(version=after.version, standing=after.standing)
    return _Added(*(max(0, getattr(after, name) - getattr(was, name)) for name in _Added._fields))


def _agrees(added: _Added | Counted) -> bool:
    return added.cached_tokens <= added.read_tokens and added.late <= added.answered


def _process(report: GatewayReport) -> Process:
    return report.gateway, report.began


def _is_silent(known: _Gateway, now: float) -> bool:
    return now - known.heard_at >= SILENT_S


def _is_sound(report: GatewayReport) -> bool:
    numbers = (report.began, report.loop_lag_s, report.cpu_s, *(one.oldest_s for one in report.held))
    counts = [getattr(one, name) for one in report.counted for name in _Added._fields]
    held = [count for one in report.held for count in (one.requests, one.tokens)]
    is_bounded = len(report.counted) + len(report.held) <= MOST_COUNTED and max(held, default=0) <= MOST_TOLD_S
    return is_bounded and bool(report.gateway) and all(0 <= one < MOST_TOLD for one in (*numbers, *counts, *held))
