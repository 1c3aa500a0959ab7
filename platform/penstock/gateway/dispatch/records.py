"""Types of worker health: evidence, probes, records, changes of circuits."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from penstock.domain.ids import VersionId, WorkerId
from penstock.gateway.dispatch.charges import Origin
from penstock.gateway.dispatch.circuit import Circuit


class FailureEvidence(StrEnum):
    NONE = "none"
    """No evidence: the caller's fault, or the gate's report about its queue."""
    ANSWERED = "answered"
    """The engine answered, with its own error or an invalid answer: it is alive."""
    BROKEN = "broken"
    """The connection broke before the answer was complete."""
    SILENT = "silent"
    """No bytes came for long."""
    UNREACHED = "unreached"
    """Two connection attempts had no answer while this process ran: the worker's host may be gone."""
    CLOSED = "closed"
    """The connection was refused, or the gate shuts down: proof by itself, which no caller can produce."""


class Why(StrEnum):
    ANSWERED = "answered"
    BROKEN = "broken"
    SILENT = "silent"
    UNREACHED = "unreached"
    ZONE = "zone"
    """Most of its zone is down."""
    HALF_OPEN = "half_open"


class ProbeResult(StrEnum):
    PASSED = "passed"
    BUSY = "busy"
    """The probe was not answered in time, but the engine makes progress: it is full."""
    FAILED = "failed"
    CLOSED = "closed"
    """No connection was possible, or the gate drains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """``origin``: the failed request that made the worker suspicious, if any."""

    worker: WorkerId
    why: Why
    origin: Origin | None = None

    @property
    def is_urgent(self) -> bool:
        return self.why is not Why.ANSWERED


class Level(StrEnum):
    WORKER = "worker"
    ZONE = "zone"
    VERSION = "version"


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
    circuit: Circuit
    is_hard: bool = False
    left: int = 1
    """Probes that must still pass before the circuit closes."""
    alive_at: float = float("-inf")
    """The time of the worker's last token to a caller."""
