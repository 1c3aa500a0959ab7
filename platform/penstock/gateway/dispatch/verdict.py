"""Judges a worker's refusal or failure: as evidence on the worker, and for a retry. Pure.

Any complete answer comes from a living engine: it causes at most a probe. An engine's message may quote the request, so
callers get only field and fault.
"""

from dataclasses import dataclass, replace
from socket import gaierror

import msgspec

from penstock.domain.errors import (
    AnswerUnformed,
    Asleep,
    BadRequest,
    DeadlineExceeded,
    DeadlineInQueue,
    DeadlineUnreachable,
    Draining,
    EngineError,
    EngineRefused,
    Evicted,
    ExceedsEngine,
    LastWorkerLost,
    NoCapacity,
    Overloaded,
    PenstockError,
    Rejected,
    UnsupportedByModel,
    WorkerLost,
)
from penstock.domain.outcome import ADAPTER_LOADING, OWN_QUEUE, TENANT_KV, TENANT_QUEUE
from penstock.domain.serving.engine import GRAMMAR_ENDED, HANDLER_FAILED, is_dead
from penstock.domain.serving.transport import is_own_shortage
from penstock.gateway.answers.engine_words import sentence
from penstock.gateway.dispatch.records import FailureEvidence

NO_ADAPTER = "adapter"
REFUSED = "the adapter was refused where it was to be loaded, and is tried there again after a while"
WITHOUT_S = 15.0
"""``Retry-After`` in seconds if all workers refuse an adapter and none names a wait."""
_UNAUTHORIZED, _NOT_FOUND, _METHOD_NOT_ALLOWED, _UNAVAILABLE, _TIMED_OUT = 401, 404, 405, 503, 504
_CLIENT_ERRORS = range(400, 500)
ASLEEP_S = 3.0
"""Seconds after which a worker that just fell asleep may be asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    error: PenstockError
    reason: str
    """Metric label: the reason for or against trying another worker."""
    retry: bool = False
    evidence: FailureEvidence = FailureEvidence.NONE

    @property
    def is_own_queue(self) -> bool:
        """The tenant's own requests fill its queue: a retry would add to them."""
        return self.error.reason == TENANT_QUEUE and isinstance(self.error, Rejected)

    @property
    def left_alone(self) -> PenstockError:
        return LastWorkerLost() if self.evidence is FailureEvidence.BROKEN else self.error


class _Detail(msgspec.Struct):
    message: str = ""
    param: str | None = None


class _ErrorBody(msgspec.Struct):
    error: _Detail | str = ""


def no_connection(error: OSError) -> FailedAttempt:
    """Refused, unanswered, or not tried for lack of sockets here."""
    said, evidence, reason = NoCapacity("the worker can't be reached"), FailureEvidence.CLOSED, "connect"
    if is_own_shortage(error):
        said, evidence, reason = NoCapacity("this gateway has no connection left"), FailureEvidence.NONE, "own_shortage"
    elif isinstance(error, TimeoutError | gaierror):
        evidence, reason = FailureEvidence.UNREACHED, "connect_timeout"
    return FailedAttempt(error=said, reason=reason, retry=True, evidence=evidence)


def lost() -> FailedAttempt:
    return FailedAttempt(error=WorkerLost(), reason="reset", retry=True, evidence=FailureEvidence.BROKEN)


def silent() -> FailedAttempt:
    """No answer until the deadline: from a frozen worker, or a full one."""
    return FailedAttempt(error=DeadlineExceeded(), reason="silent", evidence=FailureEvidence.SILENT)


def engine_error() -> FailedAttempt:
    return FailedAttempt(error=EngineError(), reason="engine_error", retry=True, evidence=FailureEvidence.ANSWERED)


def handler_error() -> FailedAttempt:
    return replace(engine_error(), reason="handler_error")


def no_stream() -> FailedAttempt:
    error = EngineRefused("the model does not stream its answer to this request", param="stream")
    return FailedAttempt(error=error, reason="refused")


def unformed() -> FailedAttempt:
    return FailedAttempt(error=AnswerUnformed(), reason="unformed")


def of_answer(status: int, refused: bytes, body: bytes, *, has_run: bool = False) -> FailedAttempt:
    """``has_run``: its gate has counted output tokens."""
    if has_run and status in _CLIENT_ERRORS and not refused and GRAMMAR_ENDED.encode() not in body:
        return unformed()
    return _of_refusal(status, refused, body)


def _of_refusal(status: int, refused: bytes, body: bytes) -> FailedAttempt:
    if refused:
        return _of_gate(refused, body)
    if status == _TIMED_OUT:  # a torch engine's own word: the batch was being computed
        return FailedAttempt(error=DeadlineExceeded(reason=_wait(body).why), reason="computing")
    if status == _UNAVAILABLE:
        return FailedAttempt(error=Overloaded(), reason="engine_full", retry=True)
    if status in _CLIENT_ERRORS:
        return _of_client_error(status, body)
    if is_dead(body):
        return lost()
    return handler_error() if _wait(body).reason == HANDLER_FAILED else engine_error()


def _of_client_error(status: int, body: bytes) -> FailedAttempt:
    if status in (_NOT_FOUND, _METHOD_NOT_ALLOWED):
        return FailedAttempt(error=UnsupportedByModel(), reason="refused")
    if status == _UNAUTHORIZED:
        return _unknown_here()
    return FailedAttempt(error=_refused(body), reason="refused")


def of_event(data: bytes) -> FailedAttempt:
    """Judge a stream that begins with an error; its code is the engine's status."""
    line = data.partition(b"data: ")[2].partition(b"\n")[0]
    try:
        code = msgspec.json.decode(line, type=_CodeBody).error.code
    except msgspec.MsgspecError:
        code = None
    return of_answer(code if isinstance(code, int) else 500, b"", line)


class _Code(msgspec.Struct):
    code: int | str | None = None


class _CodeBody(msgspec.Struct):
    error: _Code


class _Wait(msgspec.Struct):
    retry_after_s: float = 0.0
    reason: str | None = None

    @property
    def why(self) -> str | None:
        """The gate's reason if it is a known one, since callers see it."""
        return self.reason if self.reason in (TENANT_QUEUE, TENANT_KV, ADAPTER_LOADING) else None

    @property
    def says(self) -> str | None:
        if self.why in (TENANT_QUEUE, TENANT_KV):
            return OWN_QUEUE
        return f"its adapter is being loaded, {self.retry_after_s:.0f} s more" if self.why else None


class _WaitBody(msgspec.Struct):
    error: _Wait


def _of_gate(refused: bytes, body: bytes) -> FailedAttempt:
    """Judge the gate's refusal: the request never started (docs/reference/wire.md)."""
    wait = _wait(body)
    wait_s = wait.retry_after_s
    if refused in _CLOSED:
        return _CLOSED[refused]()
    if refused == b"late":
        if wait_s:
            says = f"{wait.says}, and the deadline is before that" if wait.why == ADAPTER_LOADING else None
            error = DeadlineUnreachable(says, retry_after_s=wait_s, reason=wait.why)
            return FailedAttempt(error=error, reason="late", retry=True)
        return FailedAttempt(error=DeadlineInQueue(reason=wait.why), reason="late")
    if refused in (b"ticket", b"too_large", b"adapter"):
        return _without_wait(refused, body)
    reason, kind = ("evicted", Evicted) if refused == b"evicted" else ("overloaded", Overloaded)
    return FailedAttempt(
        error=kind(wait.says, retry_after_s=wait_s or None, reason=wait.why), reason=reason, retry=True
    )


def _without_wait(refused: bytes, body: bytes) -> FailedAttempt:
    if refused == b"ticket":
        return _unknown_here()
    if refused == b"too_large":
        return FailedAttempt(error=ExceedsEngine(_refused(body).message), reason="refused")
    error = NoCapacity(REFUSED, retry_after_s=_wait(body).retry_after_s or WITHOUT_S)
    return FailedAttempt(error=error, reason=NO_ADAPTER, retry=True)


def _draining() -> FailedAttempt:
    error = Draining("the worker is shutting down")
    return FailedAttempt(error=error, reason="draining", retry=True, evidence=FailureEvidence.CLOSED)


def _sleeping() -> FailedAttempt:
    return FailedAttempt(error=Asleep(retry_after_s=ASLEEP_S), reason="sleeping", retry=True)


_CLOSED = {b"draining": _draining, b"sleeping": _sleeping}
"""Reasons for which a gate takes no new requests at all."""


def _unknown_here() -> FailedAttempt:
    """Judge a refused ticket: a probe will show whether the worker accepts any."""
    error = EngineError("the worker does not know this gateway")
    return FailedAttempt(error=error, reason="ticket", evidence=FailureEvidence.ANSWERED)


def _wait(body: bytes) -> _Wait:
    try:
        return msgspec.json.decode(body, type=_WaitBody).error
    except msgspec.MsgspecError:
        return _Wait()


def _refused(body: bytes) -> BadRequest:
    try:
        detail = msgspec.json.decode(body, type=_ErrorBody).error
    except msgspec.MsgspecError:
        return EngineRefused()
    message, given = (detail, None) if isinstance(detail, str) else (detail.message, detail.param)
    said, param = sentence(message, given or "")
    return EngineRefused(said or None, param=param or None)
