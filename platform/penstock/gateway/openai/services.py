"""Services that all APIs' exchanges and routes share: pipeline, identities, bounds, table, error observer."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from penstock.domain.clock import Clock
from penstock.domain.errors import PenstockError, UnknownRequest
from penstock.domain.fleet.table import EMPTY, RoutingTable
from penstock.domain.ids import RequestId
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.credentials import NOBODY, Claim
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.calls.call import Progress
from penstock.gateway.calls.demand import Demand
from penstock.gateway.calls.relay import Reply
from penstock.gateway.openai.bounds import UNBOUNDED, BodyBounds
from penstock.gateway.openai.early_limits import EarlyLimits
from penstock.gateway.openai.reading import BodyReader
from penstock.gateway.records.making import Early
from penstock.intake.held import Intake
from penstock.intake.limits import Limits
from penstock.intake.turns import StartTurns


class ErrorObserver(Protocol):
    def refused(
        self, error: PenstockError, request_id: RequestId, claim: Claim = NOBODY, *, api: Api | None = Api.CHAT
    ) -> None:
        """An internal fault counts against the SLO of this API's tier; ``api`` is None if the pipeline has counted the
        request, or if it is deferred work.
        """
        ...

    def crashed(self, error: BaseException, request_id: RequestId) -> None:
        """The fault's kind, never its text, which may contain a prompt."""
        ...


class Identity(Protocol):
    def authenticate(self, credential: str) -> Principal:
        """Raises ``Unauthenticated``, or ``Forbidden`` if the key may not ask models."""
        ...

    def recognise(self, credential: str) -> Principal:
        """Accept a key that may not ask models too; raises ``Unauthenticated``."""
        ...

    def asking(self, who: Principal) -> Principal:
        """Raises ``Forbidden`` if the key may not ask models."""
        ...

    def claimed(self, credential: str) -> Claim: ...


class Corridor(Protocol):
    async def serve(self, progress: Progress, reply: Reply) -> None: ...


Serve = Callable[[Progress, Reply], Awaitable[None]]


async def _let_in(_who: Principal, _model: str, _demand: Demand) -> None: ...


async def _unrecorded(_who: Principal, _idempotency_key: str) -> bool:
    return False


def unkept(_error: PenstockError, _early: Early) -> None: ...


def _unbounded(_who: Principal) -> BodyBounds:
    return UNBOUNDED


def _no_table() -> RoutingTable:
    return EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    corridor: Corridor
    identity: Identity
    clock: Clock
    limits: Limits
    ids: Callable[[], str]
    observer: ErrorObserver
    reader: BodyReader = field(default_factory=BodyReader)
    intake: Intake = field(default_factory=Intake)
    looks: EarlyLimits = field(default_factory=EarlyLimits)
    turns: StartTurns | None = None
    """The order in which requests start; None starts each at once."""
    table: Callable[[], RoutingTable] = _no_table
    """The present table: the kind of a model named in the Open Inference Protocol."""
    refuse_early: Callable[[Principal, str, Demand], Awaitable[None]] = _let_in
    """Raises the refusal that any request of a caller for this model, or for all models, would get."""
    is_recorded: Callable[[Principal, str], Awaitable[bool]] = _unrecorded
    """Tells whether a caller's idempotency key may have a recorded answer."""
    bounds: Callable[[Principal], BodyBounds] = _unbounded
    keep_early: Callable[[PenstockError, Early], None] = unkept
    """Called with each request that is refused before the pipeline."""
    region: str = "local"
    trace: Callable[[str], str] = str
    """Takes the caller's ``traceparent`` (or nothing) and returns the one to send on."""


READY_RETRY_S = 1.0


async def _nothing_kept(_who: Principal, _request_id: str) -> object:
    raise UnknownRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    table: Callable[[], RoutingTable]
    missing: Callable[[], str]
    draining: Callable[[], bool] = lambda: False
    serves: Callable[[], bool] = lambda: True
    explain: Callable[[Principal, str], Awaitable[object]] = _nothing_kept
    """Returns a request's record as JSON values, or raises ``UnknownRequest``."""
