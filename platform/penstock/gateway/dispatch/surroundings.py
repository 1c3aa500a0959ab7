"""What a worker's failure says of its zone and of its version.

* Zone: more than half of its workers are open. The others in it are left alone too, while another zone can serve;
  a success of any of them after the open time brings the zone back.
* Version: every worker is open, and nobody can be reached, or nothing but failures comes, of several tenants. Requests
  are refused early, without work; any success brings the version back.

Trade-off: a zone is found lost by the failures of whichever versions live there, so that one model's requests pay
for the knowledge and all models have it. A model that fails everywhere must not look like a lost zone: its workers
say nothing about their zones. So the loss of a zone is learned from models that live in several.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from penstock.domain.ids import TenantId, VersionId, WorkerId
from penstock.gateway.dispatch.circuit import Circuit
from penstock.gateway.dispatch.outliers import most_ejected
from penstock.gateway.dispatch.places import Place, Places
from penstock.gateway.dispatch.records import Level, Record, Switches


class Surroundings:
    """Circuits of zones and versions; ``workers`` are the records that the breakers keep."""

    def __init__(self, switches: Switches, workers: Mapping[WorkerId, Record]) -> None:
        """Know nobody yet."""
        self._switches = switches
        self._settings = switches.settings
        self._workers = workers
        self._zones: dict[str, Circuit] = {}
        self._versions: dict[VersionId, Record] = {}
        self.places = Places()

    def learn(self, places: Places, now: float) -> None:
        """Take in who belongs where now."""
        self.places = places
        for zone in [z for z in self._zones if z not in places.in_zone]:
            self._switches.close(Level.ZONE, zone, self._zones.pop(zone), now)
        for version in [v for v in self._versions if v not in places.in_version]:
            self._switches.close(Level.VERSION, version, self._versions.pop(version).circuit, now)

    # -- whom to ask ---------------------------------------------------------------------

    def avoided(
        self, workers: Sequence[WorkerId], out: set[WorkerId], now: float, *, is_sample: bool = False
    ) -> set[WorkerId]:
        """Return those in open zones, as long as others can serve; at most half of the zones are avoided.

        For a sample the version's zones count, not those that happen to be drawn; and others can be drawn.
        """
        if not self._zones or not workers:
            return set()
        zones = self.places.zones(workers[0]) if is_sample else {self.places.zone(w) for w in workers}
        shut = sorted(z for z in zones if z in self._zones and not self._zones[z].allows(now))
        shut = shut[: most_ejected(len(zones), self._settings.outliers)]
        avoided = {w for w in workers if self.places.zone(w) in shut}
        return avoided if is_sample or any(w not in out and w not in avoided for w in workers) else set()

    def shut_for_s(self, version: VersionId, now: float) -> float:
        """Return for how long this version refuses early; 0 where requests may be sent."""
        record = self._versions.get(version)
        if record is None or record.circuit.allows(now):
            return 0.0
        left_s = record.circuit.open_until - now
        return left_s if left_s > 0.0 else self._settings.circuit.open_s  # a probe is under way

    def is_unreachable(self, version: VersionId) -> bool:
        """Tell whether the version is shut because nobody takes its connections."""
        record = self._versions.get(version)
        return record is not None and record.circuit.is_open and record.is_hard

    # -- what happened -------------------------------------------------------------------

    def sent(self, worker: WorkerId, now: float) -> None:
        """A request goes to this worker; where its zone or version is half-open it is the probe."""
        place = self.places.of.get(worker)
        if place is None:
            return
        zone, version = self._zones.get(place.zone), self._versions.get(place.version)
        if zone is not None:
            zone.sent(now)
        if version is not None:
            version.circuit.sent(now)

    def succeeded(self, worker: WorkerId, now: float) -> None:
        """This worker answered."""
        place = self.places.of.get(worker)
        if place is None:
            return
        version = self._versions.get(place.version)
        if version is not None:
            version.tally.count(now, bad=False)
            version.tenants.clear()
            self._switches.close(Level.VERSION, place.version, version.circuit, now)
            if version.is_clean(now):
                del self._versions[place.version]
        zone = self._zones.get(place.zone)
        if zone is not None:
            self._switches.passed(Level.ZONE, place.zone, zone, now)

    def failed(self, worker: WorkerId, now: float, who: TenantId) -> None:
        """This worker failed this tenant, and its own record knows it already."""
        place = self.places.of.get(worker)
        if place is not None:
            self._failed_version(place.version, now, who)
            self._failed_zone(place.zone, now)

    def began_anew(self, place: Place | None, now: float) -> None:
        """A worker of this version was started again: it may be asked at once."""
        version = self._versions.get(place.version) if place is not None else None
        if place is not None and version is not None:
            self._switches.close(Level.VERSION, place.version, version.circuit, now)

    # -- judging ---------------------------------------------------------------------------

    def _failed_version(self, name: VersionId, now: float, who: TenantId) -> None:
        record = self._versions.get(name)
        if record is None:
            record = self._versions[name] = self._switches.record(Level.VERSION, now)
        record.tally.count(now, bad=True)
        if len(record.tenants) < self._settings.version_tenants:
            record.tenants.add(who)
        members = self.places.in_version.get(name, ())
        if not members or not self._all(members, lambda one: one.circuit.is_open):
            return
        record.is_hard = self._all(members, lambda one: one.is_hard)
        if record.is_hard or self._is_failing(record):
            self._switches.trip(Level.VERSION, name, record.circuit, now)
            self._acquit_zones(now)

    def _is_failing(self, record: Record) -> bool:
        ours, tally = self._settings, record.tally
        is_much = tally.bad >= ours.version_least and tally.ratio >= ours.version_bad_ratio
        return is_much and len(record.tenants) >= ours.version_tenants

    def _acquit_zones(self, now: float) -> None:
        """It was the model: zones that were blamed for its failures alone are well."""
        for zone, circuit in self._zones.items():
            if circuit.is_open and not self._is_lost(zone):
                self._switches.close(Level.ZONE, zone, circuit, now)

    def _failed_zone(self, name: str, now: float) -> None:
        circuit = self._zones.get(name)
        if (circuit is not None and circuit.is_open) or self._is_lost(name):
            circuit = self._zones.setdefault(name, Circuit(self._settings.circuit))
            self._switches.trip(Level.ZONE, name, circuit, now)

    def _is_lost(self, zone: str) -> bool:
        failing = {name for name, record in self._versions.items() if record.circuit.is_open}
        workers = [w for w in self.places.in_zone.get(zone, ()) if self.places.of[w].version not in failing]
        lost = sum(w in self._workers and self._workers[w].circuit.is_open for w in workers)
        return lost >= self._settings.zone_least and lost > self._settings.zone_open_ratio * len(workers)

    def _all(self, workers: Iterable[WorkerId], holds: Callable[[Record], bool]) -> bool:
        return all(w in self._workers and holds(self._workers[w]) for w in workers)
