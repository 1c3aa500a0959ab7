"""Types of worker health: evidence, probes, records, changes of circuits."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from penstock.domain.ids import VersionId, WorkerId
from penstock.gateway.dispatch.blame import BlameSettings
from penstock.gateway.dispatch.charges import ChargeSettings, Origin
from penstock.gateway.dispatch.circuit import Circuit, CircuitSettings


class FailureEvidence(StrEnum):
    """The evidence of a failed attempt on its worker, also a metric label."""

    NONE = "none"
    """Nothing: the caller's fault, or the gate's word about its queue."""
    ANSWERED = "answered"
    """The engine answered, with an error of its own or with what it should not: it lives."""
    BROKEN = "broken"
    """The connection broke before the answer was complete."""
    SILENT = "silent"
    """Nothing came for long."""
    UNREACHED = "unreached"
    """Two attempts to connect had no answer, while this process was awake: the worker's host may be gone."""
    CLOSED = "closed"
    """The connection was refused, or the gate shuts down: a proof by itself, which no caller can make."""


class Why(StrEnum):
    """The reason of a probe, also a metric label."""

    ANSWERED = "answered"
    BROKEN = "broken"
    SILENT = "silent"
    UNREACHED = "unreached"
    ZONE = "zone"
    """Most of its zone is down."""
    HALF_OPEN = "half_open"


class ProbeResult(StrEnum):
    """The result of a probe, also a metric label."""

    PASSED = "passed"
    BUSY = "busy"
    """It was not answered in time, and the engine works: it is full."""
    FAILED = "failed"
    CLOSED = "closed"
    """No connection could be had, or the gate drains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One probe; ``origin`` is the failed request that made the worker suspicious, if any."""

    worker: WorkerId
    why: Why
    origin: Origin | None = None

    @property
    def is_urgent(self) -> bool:
        return self.why is not Why.ANSWERED


class Level(StrEnum):
    """The scope of a circuit, also a metric label."""

    WORKER = "worker"
    ZONE = "zone"
    VERSION = "version"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    every_s: float = 1.0
    urgent_every_s: float = 0.25
    most_at_once: int = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerSettings:
    passes: int = 3
    """Probes in a row that close the circuit of a worker that failed one; one is luck."""
    zone_open_ratio: float = 0.5
    """A zone is lost when more than this share of its workers is down, and at least ``zone_least`` are."""
    zone_least: int = 2
    circuit: CircuitSettings = field(default_factory=CircuitSettings)
    charges: ChargeSettings = field(default_factory=ChargeSettings)
    probes: ProbeSettings = field(default_factory=ProbeSettings)
    blame: BlameSettings = field(default_factory=BlameSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    level: Level
    name: str
    is_open: bool
    reason: str = ""
    version: VersionId | str = ""


Tell = Callable[[Change], None]


@dataclass(slots=True)
class WorkerRecord:
    """One worker's record; ``is_hard``: no connection to it could be made."""

    circuit: Circuit
    is_hard: bool = False
    left: int = 1
    """Probes that must pass before it closes."""
    alive_at: float = float("-inf")
    """When it last answered a caller with a token."""
