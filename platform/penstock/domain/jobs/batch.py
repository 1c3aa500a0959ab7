"""Batches of requests: states and times as OpenAI's Batch API has them, and pure transitions.

A transition returns the changed batch, or raises ``Conflict``. Times are Unix seconds.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from penstock.domain.errors import Conflict
from penstock.domain.ids import KeyId, RequestId, TenantId, VersionId
from penstock.domain.jobs.ids import BatchId, FileId, JobName, ObjectId
from penstock.domain.jobs.job import JobState, Reason
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.tenant import Plan

MOST_LINES = 50_000
"""Requests of one batch: OpenAI's bound."""
MOST_TRIES = 3
"""Runners that a batch's validation may end before the batch fails."""


NO_FILE = FileId("")
DAY = "24h"
_WINDOW = re.compile(r"([1-9][0-9]{0,6})([smh])")
_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}


class BatchState(StrEnum):
    VALIDATING = "validating"
    FAILED = "failed"
    """The file was refused: nothing ran."""
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    EXPIRED = "expired"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        return self in _OVER

    @property
    def is_pausable(self) -> bool:
        return self in _PAUSABLE


_OVER = frozenset({BatchState.FAILED, BatchState.COMPLETED, BatchState.EXPIRED, BatchState.CANCELLED})
_PAUSABLE = frozenset({BatchState.VALIDATING, BatchState.IN_PROGRESS})


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFault:
    """Why a file was refused; ``line`` counts from 1, and is 0 if the fault is the whole file's."""

    code: str
    message: str
    param: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    total: int = 0
    completed: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    prompt: int = 0
    output: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A tenant's batch; ``runner`` and ``epoch`` fence the work on the batch itself, not that on its lines."""

    id: BatchId
    tenant: TenantId
    key: KeyId
    endpoint: Api
    input_file: FileId
    input_object: ObjectId
    window: str
    created_at: float
    deadline_at: float
    output_keep_s: float
    """Seconds for which both result files are kept."""
    state: BatchState = BatchState.VALIDATING
    times: Mapping[BatchState, float] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[LineFault, ...] = ()
    versions: Mapping[str, VersionId] = field(default_factory=dict)
    """The version that each model's name stands for, in all lines: a rollout does not split a batch."""
    counts: Counts = field(default_factory=Counts)
    tokens: Tokens = field(default_factory=Tokens)
    output_file: FileId = NO_FILE
    error_file: FileId = NO_FILE
    paused_at: float = 0.0
    reason: Reason = Reason.NONE
    """Why its lines wait, as it is seen now: no row has it."""
    is_late: bool = False
    """Whether lines were ended by the deadline."""
    epoch: int = 0
    tries: int = 0

    def at(self, state: BatchState) -> float:
        """Return the time at which the batch entered a state; 0 if it never did."""
        return self.times.get(state, 0.0)


def windows(plan: Plan) -> tuple[str, ...]:
    """Return the completion windows that a plan offers; the first one is OpenAI's only one."""
    return (DAY, *filter(None, plan.batch_windows.split(",")))


def window_s(window: str) -> float:
    """Return the seconds of a completion window; raises ``ValueError``."""
    found = _WINDOW.fullmatch(window)
    if found is None:
        raise ValueError("a window is a number with its unit, as 24h, 30m or 90s")
    return int(found[1]) * _UNITS_S[found[2]]


def refused(batch: Batch, faults: Sequence[LineFault], now: float) -> Batch:
    return replace(_moved(batch, BatchState.FAILED, now, BatchState.VALIDATING), faults=tuple(faults))


def begun(batch: Batch, total: int, versions: Mapping[str, VersionId], now: float) -> Batch:
    """Return the batch with its lines queued."""
    moved = _moved(batch, BatchState.IN_PROGRESS, now, BatchState.VALIDATING)
    return replace(moved, counts=Counts(total=total), versions=versions)


def lines_ended(batch: Batch, now: float, *, is_late: bool) -> Batch:
    """Return the batch with its files to be written; ``is_late`` if the deadline ended any line."""
    return replace(_moved(batch, BatchState.FINALIZING, now, BatchState.IN_PROGRESS), is_late=is_late)


def cancelling(batch: Batch, now: float) -> Batch:
    """Return the batch as its tenant wishes it: unchanged if that was wished before."""
    if batch.state in (BatchState.CANCELLING, BatchState.CANCELLED):
        return batch
    return _moved(batch, BatchState.CANCELLING, now, BatchState.VALIDATING, BatchState.IN_PROGRESS)


def closed(batch: Batch, counts: Counts, tokens: Tokens, files: tuple[FileId, FileId], now: float) -> Batch:
    """Return the batch with its output and error file: cancelled, expired or completed."""
    if batch.state is BatchState.CANCELLING:
        moved = _moved(batch, BatchState.CANCELLED, now, BatchState.CANCELLING)
    else:
        end = BatchState.EXPIRED if batch.is_late else BatchState.COMPLETED
        moved = _moved(batch, end, now, BatchState.FINALIZING)
    return replace(moved, counts=counts, tokens=tokens, output_file=files[0], error_file=files[1])


def paused(batch: Batch, now: float) -> Batch:
    """Return the batch paused; its deadline stays."""
    _check(batch, "be paused", _PAUSABLE)
    return batch if batch.paused_at else replace(batch, paused_at=now)


def resumed(batch: Batch) -> Batch:
    _check(batch, "be resumed", _PAUSABLE)
    return replace(batch, paused_at=0.0)


def _moved(batch: Batch, to: BatchState, now: float, *earlier: BatchState) -> Batch:
    _check(batch, _ACTS.get(to, f"become {to}"), frozenset(earlier))
    return replace(batch, state=to, times={**batch.times, to: now}, paused_at=0.0 if to.is_over else batch.paused_at)


_ACTS = {BatchState.CANCELLING: "be cancelled"}


def _check(batch: Batch, act: str, allowed: frozenset[BatchState]) -> None:
    if batch.state not in allowed:
        raise Conflict(f"the batch is {batch.state}: only one that is {' or '.join(sorted(allowed))} can {act}")


FIRST_ERROR = 400
"""The first HTTP status of an error."""


class EndedLine(NamedTuple):
    """``answer`` is the object with what the API answered, an error too; empty if none was stored."""

    number: int
    name: JobName
    state: JobState
    reason: Reason
    error: str
    status: int
    request: RequestId
    answer: ObjectId
    at: int
    size: int
    prompt_tokens: int
    output_tokens: int

    @property
    def was_stopped(self) -> bool:
        """Tell whether its batch ended the line, and not its own request."""
        return self.reason in (Reason.DEADLINE, Reason.CALLER, Reason.KEY_REVOKED)

    @property
    def is_answered(self) -> bool:
        return bool(self.answer) and self.status < FIRST_ERROR and not self.was_stopped
