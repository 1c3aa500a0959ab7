"""Workers: their states, their heartbeats, the orders to them."""

import signal
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.models.curves import Curve
from penstock.domain.serving.report import Load


def how_it_ended(code: int | None) -> str:
    if code is None:
        return "ended, with an unknown exit code"
    if code < 0:
        with suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
        return f"was killed by signal {-code}"
    return f"ended with code {code}"


POOL = r"[a-z0-9][a-z0-9-]{0,62}"
"""The form of a pool's name."""
SPOT, ON_DEMAND = "spot", "on-demand"
"""Pools by how a machine was bought, if its node does not say another."""
WORKER_HEADER = "x-penstock-worker"
"""Names the worker that answers a gateway, or that reports to the controller."""
VERSION_HEADER = "x-penstock-version"
"""Names the version that a reporting worker was started for."""


class WorkerState(StrEnum):
    """States in the order of a life (G1)."""

    FETCHING = "fetching"
    VERIFYING = "verifying"
    LOADING = "loading"
    COMPILING = "compiling"
    WARMING = "warming"
    READY = "ready"
    SLEEPING = "sleeping"
    """Accepts no requests and frees its engine's memory once its streams have ended; it can wake again."""
    WAKING = "waking"
    """Waking up; golden prompts come before ready, as at every start."""
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
    SERVE = "serve"
    """Serve; a sleeping worker wakes."""
    SLEEP = "sleep"
    """Close the gate, let the streams end, free the memory and stay; a sleeping worker sleeps on."""
    DRAIN = "drain"


class WorkerEnd(StrEnum):
    DRAINED = "drained"
    """The controller ordered the drain, or a person stopped the worker."""
    NOTICE = "notice"
    """The machine announced its own end, for example a spot instance; no controller ordered it."""
    WRONG_ANSWERS = "wrong_answers"
    REFUSED = "refused"
    """The version's files are not the signed ones, or can't be served here."""
    GAVE_UP = "gave_up"
    """The engine could not be started, or was lost too often."""
    FAULT = "fault"
    """A bug of ours."""
    LOST = "lost"
    """The worker's heartbeats stopped without a last word: killed, or machine or network gone."""

    @property
    def is_loss(self) -> bool:
        """True for an end that was neither ordered nor announced: a replacement is started."""
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
    phase: WorkerState
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedAdapter:
    """The reason, and seconds until the next try."""

    version: VersionId
    reason: str
    """For operators: it may quote golden prompts."""
    left_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    worker: WorkerId
    version: VersionId
    state: WorkerState
    url: str
    """Base URL of the engine's gate, for example ``http://127.0.0.1:40123``."""
    zone: str = ""
    pools: tuple[str, ...] = ()
    """The pools that its machine is in: how it was bought, and what its operators call it."""
    pid: int = 0
    load: Load = field(default_factory=Load)
    phases: tuple[PhaseTiming, ...] = ()
    detail: str = ""
    """The reason for the state, for people (for example the refusal of a tampered file)."""
    ready_in_s: float = 0.0
    """Expected seconds to ready while starting; feeds ``Retry-After``."""
    restarts: int = 0
    restart_s: float = 0.0
    """Seconds that a restart in place takes, by the last start: nothing is fetched or imported. 0: unknown."""
    key_mark: str = ""
    """The mark of the worker's secret (``domain/keys.py``): from the platform's present key or the previous one."""
    end: WorkerEnd | None = None
    """The reason for the worker's end, once it ends."""
    adapters: tuple[VersionId, ...] = ()
    """Adapters that the engine holds, checked and ready to answer."""
    refused: tuple[RefusedAdapter, ...] = ()
    """Adapters that the worker refused last, and the reasons."""
    cached: tuple[VersionId, ...] = ()
    """Versions that were fetched into the node's cache before a worker of them came."""
    holds_memory: bool = True
    """False if the worker sleeps and its engine's memory is free for others."""
    kv_blocks: int = 0
    """Blocks of the engine's KV cache; 0 if not known."""
    curve: Curve | None = None
    """The engine's curve, learned from the steps that it served; None until enough were seen."""
