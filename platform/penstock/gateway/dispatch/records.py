"""What a gateway holds against a worker, a zone or a version, and how a circuit's turning is told."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from penstock.domain.ids import TenantId
from penstock.gateway.dispatch.circuit import Circuit, CircuitSettings
from penstock.gateway.dispatch.outliers import OutlierSettings, Tally

FORGOTTEN = 0.1
"""So little of a failure is left after three half-lives that it is none."""


class Level(StrEnum):
    """What a circuit stands for: a metric label."""

    WORKER = "worker"
    ZONE = "zone"
    VERSION = "version"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerSettings:
    """When circuits open."""

    failures: int = 3
    """In a row, of a worker."""
    gray_probes: int = 3
    """Successes in a row after which an outlier is trusted again; one is luck."""
    zone_open_ratio: float = 0.5
    """A zone opens when more than this share of its workers is open, and at least ``zone_least`` are."""
    zone_least: int = 2
    version_bad_ratio: float = 0.9
    version_least: float = 5.0
    """Failures before a version that still takes connections counts as failing everywhere."""
    version_tenants: int = 2
    """And so many tenants must have met them: what one of them sends may be what fails."""
    version_probe_s: float = 2.0
    """A version's probe is forgotten soon: while it is under way everybody else is refused."""
    circuit: CircuitSettings = field(default_factory=CircuitSettings)
    outliers: OutlierSettings = field(default_factory=OutlierSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A circuit opened or closed."""

    level: Level
    name: str
    is_open: bool


@dataclass(slots=True)
class Record:
    """One worker's, zone's or version's; ``is_hard``: it could not even be reached."""

    circuit: Circuit
    tally: Tally
    in_a_row: int = 0
    is_hard: bool = False
    tenants: set[TenantId] = field(default_factory=set)
    """Some of those whose requests failed since the last success."""

    def is_clean(self, now: float) -> bool:
        """Tell whether nothing is held against it any more."""
        return self.circuit.is_calm(now) and self.tally.bad < FORGOTTEN


@dataclass(frozen=True, slots=True)
class Switches:
    """Makes circuits, turns them, and tells when one turned."""

    settings: BreakerSettings
    chance: random.Random
    tell: Callable[[Change], None]

    def record(self, level: Level, now: float) -> Record:
        """Return a new record with nothing on it."""
        ours = self.settings
        circuit = replace(ours.circuit, probe_s=ours.version_probe_s) if level is Level.VERSION else ours.circuit
        return Record(Circuit(circuit), Tally(ours.outliers.half_life_s, now))

    def trip(self, level: Level, name: str, circuit: Circuit, now: float, *, probes: int = 1) -> bool:
        """Open, or open again; True where it was not open at this moment."""
        was_open = circuit.is_open
        opened = circuit.trip(now, self.chance, probes=probes)
        if opened and not was_open:
            self.tell(Change(level=level, name=name, is_open=True))
        return opened

    def close(self, level: Level, name: str, circuit: Circuit, now: float) -> None:
        """Close, whoever knows that all is well."""
        if circuit.is_open:
            circuit.close(now)
            self.tell(Change(level=level, name=name, is_open=False))

    def passed(self, level: Level, name: str, circuit: Circuit, now: float) -> bool:
        """Count a success; True where it closed the circuit."""
        closed = circuit.passed(now)
        if closed:
            self.tell(Change(level=level, name=name, is_open=False))
        return closed
