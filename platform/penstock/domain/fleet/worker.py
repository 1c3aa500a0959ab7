"""Workers: their states, their heartbeats, the orders to them."""

from dataclasses import dataclass, field
from enum import StrEnum

from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.serving.load import Load

WORKER_HEADER = "x-penstock-worker"
"""Names the worker that answers a gateway, or that reports to the controller."""
VERSION_HEADER = "x-penstock-version"
"""Names the version that a reporting worker was started for."""


class WorkerState(StrEnum):
    """The states of a worker's life, in order (G1)."""

    FETCHING = "fetching"
    VERIFYING = "verifying"
    LOADING = "loading"
    COMPILING = "compiling"
    WARMING = "warming"
    READY = "ready"
    SLEEPING = "sleeping"
    """It takes nothing new and gives its engine's memory back, once its streams have ended; it can have it again."""
    WAKING = "waking"
    """On the way back; golden prompts come before ready, as at every start."""
    DRAINING = "draining"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def serves(self) -> bool:
        return self is WorkerState.READY

    @property
    def is_starting(self) -> bool:
        return self in _STARTING


class WorkerOrder(StrEnum):
    """The controller's order to a worker, in each answer to a heartbeat."""

    SERVE = "serve"
    """Serve; a sleeping worker wakes."""
    SLEEP = "sleep"
    """Close the gate, let the streams end, free the memory and stay; a sleeping worker sleeps on."""
    DRAIN = "drain"


class WorkerEnd(StrEnum):
    """The reason for a worker's end."""

    DRAINED = "drained"
    """The controller ordered it, or a person stopped it."""
    NOTICE = "notice"
    """The machine, which may be taken away, told it so; no controller did."""
    WRONG_ANSWERS = "wrong_answers"
    REFUSED = "refused"
    """What it was to serve is not what was signed, or can't be served here."""
    GAVE_UP = "gave_up"
    """Its engine could not be started, or was lost too often."""
    FAULT = "fault"
    """A bug of ours."""
    LOST = "lost"
    """It was there and is heard of no more, without a word: killed, or its machine or network is gone."""

    @property
    def is_loss(self) -> bool:
        """True if it was neither ordered nor announced, so that another worker is started in its place."""
        return self in {WorkerEnd.GAVE_UP, WorkerEnd.FAULT, WorkerEnd.LOST}


_STARTING = frozenset(
    {
        WorkerState.FETCHING,
        WorkerState.VERIFYING,
        WorkerState.LOADING,
        WorkerState.COMPILING,
        WorkerState.WARMING,
        WorkerState.WAKING,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseTiming:
    """The duration of one phase of a start."""

    phase: WorkerState
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedAdapter:
    """An adapter that a worker refused at the last try, the reason, and the seconds until the next try."""

    version: VersionId
    reason: str
    """For operators: it may quote golden prompts."""
    left_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """A worker's heartbeat: identity, state, address, load, timings of its last start."""

    worker: WorkerId
    version: VersionId
    state: WorkerState
    url: str
    """Base URL of the engine's gate, for example ``http://127.0.0.1:40123``."""
    zone: str = ""
    pid: int = 0
    load: Load = field(default_factory=Load)
    phases: tuple[PhaseTiming, ...] = ()
    detail: str = ""
    """Why it is in this state, for people (for example the refusal of a tampered file)."""
    ready_in_s: float = 0.0
    """Expected seconds to ready while starting; feeds ``Retry-After``."""
    restarts: int = 0
    restart_s: float = 0.0
    """What starting it again here takes, by its last start: nothing is fetched, and its parent is there. 0: unknown."""
    key_mark: str = ""
    """Which secret it holds (``domain/keys.py``): of the platform's key of now, or of the one before."""
    end: WorkerEnd | None = None
    """Why it goes, once it does."""
    adapters: tuple[VersionId, ...] = ()
    """Adapters that its engine holds, checked and ready to answer."""
    refused: tuple[RefusedAdapter, ...] = ()
    """Adapters that it refused last, and why."""
    holds_memory: bool = True
    """False if it sleeps and its engine's memory is free for others."""
