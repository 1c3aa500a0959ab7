"""One tree of errors, ordered by the caller's next step.

``BadRequest``: change the request. ``Rejected``: it never started, retry later. ``Evicted``: it waited and never ran,
try again. ``Failed``: it may have run, so don't retry blindly; of these only ``WorkerLost`` may be sent again, since no
part of an answer exists.

An exception's docstring is its default message. Only the APIs map these to HTTP.
"""

from collections.abc import Sequence
from typing import ClassVar

from penstock.domain.outcome import Outcome, outcome_of

MAX_PARAM_CHARS = 512
"""Characters of a field's path in an error: that of the deepest documented field has 100."""


def printable(text: str) -> str:
    """Return the text with each control character replaced: errors quote callers' names, and terminals show errors."""
    return text if text.isprintable() else "".join(one if one.isprintable() else "?" for one in text)


class PenstockError(Exception):
    """Something went wrong inside the platform."""

    code: ClassVar[str] = "internal_error"
    outcome: Outcome = Outcome.INTERNAL

    def __init__(
        self,
        message: str | None = None,
        *,
        param: str | None = None,
        retry_after_s: float | None = None,
        reason: str | None = None,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        """Take a caller-safe ``message`` (no prompt text, no secrets) and the field at fault; both become printable.

        ``reason`` is a code of the limit that refused; ``headers`` state the remainder of each limit.
        """
        self.message = printable(message) if message else (type(self).__doc__ or "").strip()
        self.param = None if param is None else printable(param[:MAX_PARAM_CHARS])
        self.retry_after_s = retry_after_s
        self.reason = reason
        self.outcome = outcome_of(type(self).outcome, reason)
        self.headers = headers
        super().__init__(self.message)


def codes(kind: type[PenstockError] = PenstockError) -> frozenset[str]:
    return frozenset({kind.code}).union(*(codes(child) for child in kind.__subclasses__()))


# -- BadRequest: change the request ------------------------------------------------


class BadRequest(PenstockError):
    """The request is not valid."""

    code = "invalid_request"
    outcome = Outcome.BAD_REQUEST


class MalformedBody(BadRequest):
    """The body is not valid JSON in UTF-8."""

    code = "malformed_body"


class InvalidField(BadRequest):
    """A field has a value that the API does not accept."""

    code = "invalid_field"


class UnsupportedField(InvalidField):
    """A field asks for a feature that is not supported."""

    code = "unsupported_field"


class ContextTooLong(BadRequest):
    """Prompt and requested output do not fit into the model's context."""

    code = "context_length_exceeded"


class ExceedsEngine(BadRequest):
    """The request needs a larger part of the engine than a single request may use."""

    code = "request_exceeds_engine"


class BodyTooLarge(BadRequest):
    """The request body is larger than the gateway accepts."""

    code = "body_too_large"


class CompressedBody(BadRequest):
    """The request body is compressed; send it as it is."""

    code = "compressed_body"


class UnknownExpectation(BadRequest):
    """The only Expect header accepted is 100-continue."""

    code = "unknown_expectation"


class HeadersTooLarge(BadRequest):
    """The request's headers are larger or more than the gateway accepts."""

    code = "headers_too_large"


class RequestTimedOut(BadRequest):
    """The request was not received completely in time."""

    code = "request_timeout"


class Unauthenticated(BadRequest):
    """No valid API key was given."""

    code = "invalid_api_key"
    outcome = Outcome.UNAUTHENTICATED


class Forbidden(BadRequest):
    """This API key may not do that."""

    code = "forbidden"
    outcome = Outcome.FORBIDDEN


class OriginRefused(BadRequest):
    """Browsers may not call this gateway from that origin: its operator allows origins by PENSTOCK_CORS_ORIGINS."""

    code = "origin_not_allowed"


class UnknownModel(BadRequest):
    """The model or version does not exist, or this key may not see it."""

    code = "model_not_found"


class UnknownRequest(BadRequest):
    """No record of this request exists: it still runs, its record could not be written, or newer ones replaced it."""

    code = "request_not_found"


class UnknownObject(BadRequest):
    """There is no such object, or it is not this tenant's."""

    code = "object_not_found"


class UnknownRollout(BadRequest):
    """There is no such rollout."""

    code = "rollout_not_found"


class UnknownRoute(BadRequest):
    """There is nothing at this path."""

    code = "route_not_found"


class MethodNotAllowed(BadRequest):
    """This path does not take that method."""

    code = "method_not_allowed"


class UnsupportedByModel(BadRequest):
    """This model does not offer that API."""

    code = "unsupported_by_model"


class TooDear(BadRequest):
    """This model costs more than the request's price cap."""

    code = "price_above_cap"


class NoRuleFits(BadRequest):
    """No rule of this auto alias fits the request."""

    code = "no_rule_fits"


class EngineRefused(BadRequest):
    """The engine did not accept the request."""

    code = "engine_refused"


class Conflict(BadRequest):
    """The request conflicts with the present state."""

    code = "conflict"


class IdempotencyMismatch(BadRequest):
    """The idempotency key was used before with another body."""

    code = "idempotency_mismatch"


# -- Rejected: never started, come back later ----------------------------------------


class Rejected(PenstockError):
    """The request was not started."""

    code = "rejected"
    outcome = Outcome.NO_CAPACITY


class OverLimit(Rejected):
    """The caller's own limit is used up."""

    code = "rate_limit_exceeded"
    outcome = Outcome.OVER_LIMIT


class ExceedsLimit(OverLimit):
    """This request alone exceeds the caller's limit."""

    code = "request_exceeds_limit"


class OverBudget(Rejected):
    """The caller's budget is used up."""

    code = "budget_exceeded"
    outcome = Outcome.OVER_BUDGET


class BudgetHeld(OverBudget):
    """The rest of the caller's budget is reserved by its running requests."""


class NoCapacity(Rejected):
    """No worker of this model is ready."""

    code = "no_capacity"


class Asleep(NoCapacity):
    """The worker has just fallen asleep."""


class Overloaded(Rejected):
    """The workers of this model are full."""

    code = "overloaded"


class DeadlineUnreachable(Rejected):
    """The request can't be answered before its deadline: its header's, its plan's deadline_s, or else its tier's."""

    code = "deadline_unreachable"
    outcome = Outcome.DEADLINE


class Draining(Rejected):
    """This process is shutting down."""

    code = "draining"


# -- Evicted: waited, never ran --------------------------------------------------------


class Evicted(PenstockError):
    """The request waited and was removed before it ran."""

    code = "evicted"
    outcome = Outcome.EVICTED


class DeadlineInQueue(Evicted):
    """The deadline passed before the request ran."""

    code = "deadline_in_queue"
    outcome = Outcome.DEADLINE


# -- Failed: may have run -------------------------------------------------------------


class Failed(PenstockError):
    """The request failed after it may have started."""

    code = "internal_error"


class WorkerLost(Failed):
    """The worker was lost before it answered."""

    code = "worker_lost"
    outcome = Outcome.ENGINE_ERROR


class LastWorkerLost(WorkerLost):
    """The worker was lost before it answered, and no other one of this model serves."""


class LosesWorkers(Failed):
    """Workers were lost each time that this request was sent to them: it is refused for some minutes."""

    code = "loses_workers"
    outcome = Outcome.ENGINE_ERROR


class StreamBroken(Failed):
    """The worker was lost in the middle of the answer."""

    code = "stream_broken"
    outcome = Outcome.BROKEN_STREAM


class EngineError(Failed):
    """The engine failed on this request."""

    code = "engine_error"
    outcome = Outcome.ENGINE_ERROR


class AnswerUnformed(EngineError):
    """The engine generated an answer that could not be converted to this API's format."""


class DeadlineExceeded(Failed):
    """The deadline passed while the request ran."""

    code = "deadline_exceeded"
    outcome = Outcome.DEADLINE


class BudgetReached(Failed):
    """The caller's budget was used up while the request ran; what it had generated is billed."""

    code = "budget_reached"
    outcome = Outcome.OVER_BUDGET


class LimitReached(Failed):
    """The caller's limit was used up while the request ran; what it had generated is billed."""

    code = "limit_reached"
    outcome = Outcome.OVER_LIMIT


class ClientGone(Failed):
    """The client left before the answer was complete."""

    code = "client_closed_request"
    outcome = Outcome.CANCELLED


class ReaderTooSlow(Failed):
    """The client read the stream too slowly."""

    code = "reader_too_slow"
    outcome = Outcome.SLOW_READER


# -- for operators: artifacts, registry, control ---------------------------------------


class ArtifactRefused(PenstockError):
    """The artifact is unsigned, altered, or of a kind that is not served."""

    code = "artifact_refused"


class StoreUnavailable(PenstockError):
    """A store the operation needs can't be reached."""

    code = "store_unavailable"


class TableRefused(PenstockError):
    """The routing table is not valid; the last good one stays."""

    code = "table_refused"
