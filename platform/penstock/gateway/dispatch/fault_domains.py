"""Fault domains: lost zones and shut versions, derived from workers that are down. Pure.

* Zone: more than half of its workers are down. The rest are probed at once, and skipped until they have answered while
  another zone serves.
* Version: every worker is down. Requests are refused early until the first worker is up again.

A worker is down only by the platform's own evidence, so no caller can shut a version.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable

from penstock.domain.ids import VersionId, WorkerId
from penstock.gateway.dispatch.places import Place, Places
from penstock.gateway.dispatch.records import Change, Level, Tell

ZONE_OPEN_RATIO, ZONE_LEAST = 0.5, 2
"""A zone is lost when more than this share of its workers is down, and at least ``ZONE_LEAST`` are."""


class FaultDomains:
    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._down: dict[WorkerId, Place] = {}
        self._in_version: Counter[VersionId] = Counter()
        self._in_zone: dict[str, Counter[VersionId]] = defaultdict(Counter)
        self._lost: set[str] = set()
        self._shut: set[VersionId] = set()
        self.places = Places()

    def learn(self, places: Places) -> frozenset[WorkerId]:
        """Learn the workers' zones; return the workers to probe."""
        self.places = places
        down = [worker for worker in self._down if worker in places.ready]
        self._in_version.clear()
        self._in_zone.clear()
        self._down = {worker: places.of[worker] for worker in down}
        for place in self._down.values():
            self._count(place, 1)
        return self._judge({*self._in_version, *self._shut}, {*self._in_zone, *self._lost})

    def down(self, worker: WorkerId) -> frozenset[WorkerId]:
        place = self.places.of.get(worker)
        if place is None or worker in self._down or worker not in self.places.ready:
            return frozenset()
        self._down[worker] = place
        return self._turned(place, 1)

    def up(self, worker: WorkerId) -> None:
        place = self._down.pop(worker, None)
        if place is not None:
            self._turned(place, -1)

    def is_shut(self, version: VersionId) -> bool:
        return version in self._shut

    # -- judging ---------------------------------------------------------------------------

    def _turned(self, place: Place, change: int) -> frozenset[WorkerId]:
        self._count(place, change)
        was_shut = place.version in self._shut
        turns = was_shut is not self._is_shut(place.version)
        zones = {zone for zone, sizes in self.places.sizes.items() if sizes[place.version]} if turns else {place.zone}
        return self._judge({place.version}, zones)

    def _count(self, place: Place, change: int) -> None:
        self._in_version[place.version] += change
        self._in_zone[place.zone][place.version] += change

    def _judge(self, versions: Iterable[VersionId], zones: Iterable[str]) -> frozenset[WorkerId]:
        """Versions first: workers of a shut version don't count for their zones."""
        for version in sorted(versions):
            if self._is_shut(version) is not (version in self._shut):
                self._shut ^= {version}
                self._told(Level.VERSION, version, is_open=version in self._shut)
        found: set[WorkerId] = set()
        for zone in sorted(zones):
            if self._is_lost(zone) is not (zone in self._lost):
                self._lost ^= {zone}
                self._told(Level.ZONE, zone, is_open=zone in self._lost)
                if zone in self._lost:
                    found.update(self.places.in_zone[zone])
        return frozenset(found.difference(self._down))

    def _is_shut(self, version: VersionId) -> bool:
        members = self.places.in_version.get(version, ())
        return bool(members) and self._in_version[version] >= len(members)

    def _is_lost(self, zone: str) -> bool:
        down, sizes = self._in_zone.get(zone, Counter()), self.places.sizes.get(zone, Counter())
        lost = sum(count for version, count in down.items() if version not in self._shut)
        whole = sum(count for version, count in sizes.items() if version not in self._shut)
        return lost >= ZONE_LEAST and lost > ZONE_OPEN_RATIO * whole

    def _told(self, level: Level, name: str, *, is_open: bool) -> None:
        reason = ("every worker is down" if level is Level.VERSION else "most workers are down") if is_open else ""
        self._tell(Change(level=level, name=name, is_open=is_open, reason=reason))
