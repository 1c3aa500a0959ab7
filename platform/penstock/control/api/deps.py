"""The controller's parts behind the operators' API, and its callers, as FastAPI dependencies."""

import hmac
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Annotated, cast

from fastapi import Depends, Header, Query, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from penstock.control.api.access import AdminCaller
from penstock.control.api.ports import AuditLog, DeferredWork, PackStore, TableHistory, TenancyStore
from penstock.control.api.refusals import Refusals, Refused
from penstock.control.api.wire import check_address
from penstock.control.autoscaler.autoscaler import Autoscaler
from penstock.control.decisions import Decisions
from penstock.control.fleet.addresses import WorkerAddresses
from penstock.control.fleet.heartbeats import Heartbeats
from penstock.control.fleet.orders import Orders
from penstock.control.registry.registry import Registry
from penstock.control.rollout.rollouts import Rollouts
from penstock.control.runtime import Runtime
from penstock.domain.clock import Clock
from penstock.domain.errors import InvalidField, StoreUnavailable, Unauthenticated
from penstock.domain.fleet.worker import VERSION_HEADER, WORKER_HEADER
from penstock.domain.ids import Alias, TenantId, VersionId, WorkerId
from penstock.domain.jobs.deletion import DeletionStore
from penstock.domain.serving.agreement import Reported
from penstock.domain.tenancy import credentials
from penstock.domain.tenancy.audit import NO_TENANT, Act
from penstock.domain.tenancy.keys import worker_bearer
from penstock.domain.tenancy.ledger import LedgerReader
from penstock.domain.tenancy.limits import SpentStore
from penstock.domain.tenancy.tenant import KeyRing, Tenant
from penstock.intake.bodies import prove
from penstock.judging.comparisons import Comparisons
from penstock.sealing.administration import KeyAdministration
from penstock.telemetry.logs import logger
from penstock.telemetry.metrics import Metrics


@dataclass(slots=True, kw_only=True)
class Secrets:
    """Keys for checking credentials, newest first; they may change while the controller runs, and are never shown."""

    peppers: tuple[bytes, ...]
    platform_keys: tuple[bytes, ...]

    @property
    def pepper(self) -> bytes:
        return self.peppers[0]

    def is_bearer(self, bearer: str, worker: WorkerId, version: VersionId) -> bool:
        """Tell whether this is the credential of this worker, started for this version."""
        expected = (worker_bearer(key, worker, version).encode() for key in self.platform_keys)
        return any(hmac.compare_digest(bearer.encode(), one) for one in expected)

    def __repr__(self) -> str:
        return "Secrets(…)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    clock: Clock
    acts: Callable[[], AbstractAsyncContextManager[None]]
    """Runs one administrative act at a time, over all controllers; if it raises, nothing that it wrote stays."""
    registry: Registry
    tenancy: TenancyStore
    sealing: KeyAdministration
    deletions: DeletionStore
    tables: TableHistory
    packs: PackStore
    audit: AuditLog
    jobs: DeferredWork
    ledger: LedgerReader
    meters: SpentStore | None
    """The limits that all gateways share; None if each gateway has its own."""
    heartbeats: Heartbeats
    orders: Orders
    decisions: Decisions
    scaler: Autoscaler
    runtime: Runtime
    leader: Callable[[], Awaitable[str]]
    """The name of the controller that leads; empty without one."""
    metrics: Metrics
    secrets: Secrets
    comparisons: Comparisons
    rollouts: Rollouts
    agreements: Callable[[Alias, float, float], Awaitable[Sequence[Reported]]]
    """An auto alias's comparisons within some seconds before a Unix second."""
    addresses: WorkerAddresses
    """The addresses that workers may report."""
    pool_bytes: int = 0
    """The memory for engines on the workers' machine; 0 for no bound."""
    certificate_ends_at: Callable[[], float | None] = lambda: None
    """The expiry of this controller's certificate; None without one."""
    refusals: Refusals = field(default_factory=Refusals)

    async def ring(self) -> KeyRing:
        return KeyRing(
            keys=await self.tenancy.keys(), tenants=await self.tenancy.tenants(), orgs=await self.tenancy.orgs()
        )

    async def tenant(self, tenant: TenantId) -> Tenant:
        """Return a named tenant, or raise ``InvalidField``."""
        found = next((one for one in await self.tenancy.tenants() if one.id == tenant), None)
        if found is None:
            raise InvalidField(f"there is no tenant {tenant}", param="tenant")
        return found

    async def refused(self, refused: Refused) -> None:
        """Write an audit row for a refusal of authority, or count it with others of its minute."""
        await self._note(self.refusals.take(refused, self.clock.monotonic(), self.clock.now()))

    async def note_repeats(self) -> None:
        await self._note(self.refusals.ended(self.clock.monotonic(), self.clock.now()))

    async def _note(self, acts: Sequence[Act]) -> None:
        try:
            for act in acts:
                await self.audit.note(act)
        except StoreUnavailable as error:  # the caller is refused all the same
            logger().warning("refusal_not_noted", reason=error.message)

    def act(self, caller: AdminCaller, what: str, target: str = "", *, tenant: TenantId = NO_TENANT) -> Act:
        return Act(who=caller.key.id, what=what, target=target, at=self.clock.now(), tenant=tenant)


def _control(request: Request) -> Control:
    return cast("Control", request.app.state.control)


Controlled = Annotated[Control, Depends(_control)]
_BEARER = HTTPBearer(auto_error=False, description="An API key with the role admin or auditor; of a worker, its own.")
Sender = Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)]


async def _worker(
    request: Request,
    control: Controlled,
    sender: Sender,
    sent_worker: Annotated[str, Header(alias=WORKER_HEADER)] = "",
    sent_version: Annotated[str, Header(alias=VERSION_HEADER)] = "",
) -> tuple[WorkerId, VersionId]:
    named = WorkerId(sent_worker), VersionId(sent_version)
    if not sent_worker or not control.secrets.is_bearer(_credential(sender), *named):
        raise Unauthenticated("this address is for workers of this platform")
    check_address(request)
    prove(request.scope)
    return named


async def _caller(request: Request, control: Controlled, sender: Sender) -> AdminCaller:
    credential = _credential(sender)
    key = await control.tenancy.key(credentials.named(credential))
    known = credentials.verify(key, credential, control.secrets.peppers, control.clock.now())
    check_address(request)
    prove(request.scope)
    request.state.caller = known
    return AdminCaller(key=known)


async def _reader(caller: Annotated[AdminCaller, Depends(_caller)]) -> AdminCaller:
    caller.check_role(credentials.READS)
    return caller


async def _manager(caller: Annotated[AdminCaller, Depends(_caller)]) -> AdminCaller:
    caller.check_role(credentials.MANAGES)
    return caller


Reader = Annotated[AdminCaller, Depends(_reader)]
"""An admin's or auditor's key of any tenant; otherwise ``Unauthenticated`` or ``Forbidden`` is raised."""
Manager = Annotated[AdminCaller, Depends(_manager)]
"""An admin key of any tenant."""


async def _overseer(caller: Reader) -> AdminCaller:
    caller.check_operator()
    return caller


async def _operator(caller: Manager) -> AdminCaller:
    caller.check_operator()
    return caller


Overseer = Annotated[AdminCaller, Depends(_overseer)]
"""An admin's or auditor's key of the operators."""
Operator = Annotated[AdminCaller, Depends(_operator)]
"""An admin key of the operators."""
Reporting = Annotated[tuple[WorkerId, VersionId], Depends(_worker)]
"""The calling worker, and the version that it was started for."""


def _credential(sender: HTTPAuthorizationCredentials | None) -> str:
    return sender.credentials.strip() if sender else ""


Second = Annotated[float, Query(ge=0, allow_inf_nan=False)]
"""A moment in Unix seconds; 0 for none."""
