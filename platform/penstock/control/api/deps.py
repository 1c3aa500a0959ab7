"""What the operators' API works on, and who may call it."""

import hmac
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from fastapi import Request

from penstock.control.api.access import Caller
from penstock.control.api.ports import AuditLog, TableHistory, TenancyStore
from penstock.control.decisions import Decisions
from penstock.control.fleet.addresses import WorkerAddresses
from penstock.control.fleet.heartbeats import Heartbeats
from penstock.control.fleet.orders import Orders
from penstock.control.registry.registry import Registry
from penstock.control.rollout.comparisons import Comparisons
from penstock.control.rollout.rollouts import Rollouts
from penstock.control.runtime import Runtime
from penstock.domain.clock import Clock
from penstock.domain.errors import Unauthenticated
from penstock.domain.fleet.worker import VERSION_HEADER, WORKER_HEADER
from penstock.domain.ids import Alias, TenantId, VersionId, WorkerId
from penstock.domain.serving.agreement import Reported
from penstock.domain.tenancy.audit import NO_TENANT, Act
from penstock.domain.tenancy.keys import is_hash_of, key_id_of, worker_bearer
from penstock.domain.tenancy.ledger import LedgerReader
from penstock.domain.tenancy.limits import SpentStore
from penstock.domain.tenancy.tenant import ApiKey, KeyRing, Role
from penstock.telemetry.metrics import Metrics


@dataclass(slots=True, kw_only=True)
class Secrets:
    """What credentials are checked against, the newest first; exchanged while the controller runs, never shown."""

    peppers: tuple[bytes, ...]
    platform_keys: tuple[bytes, ...]

    @property
    def pepper(self) -> bytes:
        """What new keys are hashed with."""
        return self.peppers[0]

    def is_bearer(self, bearer: str, worker: WorkerId, version: VersionId) -> bool:
        """Tell whether this is what a worker of this name, started for this version, shows with its reports."""
        expected = (worker_bearer(key, worker, version).encode() for key in self.platform_keys)
        return any(hmac.compare_digest(bearer.encode(), one) for one in expected)

    def __repr__(self) -> str:
        """Hide everything."""
        return "Secrets(…)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """The rooms behind the API."""

    clock: Clock
    registry: Registry
    tenancy: TenancyStore
    tables: TableHistory
    audit: AuditLog
    ledger: LedgerReader
    meters: SpentStore | None
    """The limits that all gateways share; None where each gateway keeps its own."""
    heartbeats: Heartbeats
    orders: Orders
    decisions: Decisions
    runtime: Runtime
    metrics: Metrics
    secrets: Secrets
    comparisons: Comparisons
    rollouts: Rollouts
    agreements: Callable[[Alias, float, float], Awaitable[Sequence[Reported]]]
    """What came of an auto alias's comparisons, in so many seconds before a Unix second."""
    addresses: WorkerAddresses
    """Where workers may say that they are."""
    pool_bytes: int = 0
    """What the workers' machine has for engines; 0 where that bounds nothing."""
    certificate_ends_at: Callable[[], float | None] = lambda: None
    """Until when this controller's certificate is valid; None where it has none."""

    def worker(self, request: Request) -> tuple[WorkerId, VersionId]:
        """Return which worker calls and what it serves, or raise ``Unauthenticated``: each holds its own credential."""
        worker = WorkerId(request.headers.get(WORKER_HEADER, ""))
        version = VersionId(request.headers.get(VERSION_HEADER, ""))
        if not worker or not self.secrets.is_bearer(_bearer(request), worker, version):
            raise Unauthenticated("this address is for workers of this platform")
        return worker, version

    async def operator(self, request: Request) -> Caller:
        """Return the caller with an admin key of the operators, or raise ``Unauthenticated`` or ``Forbidden``."""
        caller = await self.manager(request)
        caller.check_operator()
        return caller

    async def overseer(self, request: Request) -> Caller:
        """Return the caller with an admin's or auditor's key of the operators, or raise like ``operator``."""
        caller = await self.reader(request)
        caller.check_operator()
        return caller

    async def manager(self, request: Request) -> Caller:
        """Return the caller with an admin key of any tenant, or raise like ``operator``."""
        caller = Caller(key=await self._key(request))
        caller.check_role(Role.ADMIN)
        return caller

    async def reader(self, request: Request) -> Caller:
        """Return the caller with an admin's or auditor's key of any tenant, or raise like ``operator``."""
        caller = Caller(key=await self._key(request))
        caller.check_role(Role.ADMIN, Role.AUDITOR)
        return caller

    async def _key(self, request: Request) -> ApiKey:
        credential = _bearer(request)
        key_id = key_id_of(credential)
        key = None if key_id is None else await self.tenancy.key(key_id)
        if key is None or not is_hash_of(key.secret_hash, credential, self.secrets.peppers):
            raise Unauthenticated
        if not key.valid_at(self.clock.now()):
            raise Unauthenticated("this API key was revoked or has expired")
        return key

    async def ring(self) -> KeyRing:
        """Return all keys, tenants and organisations of now."""
        return KeyRing(
            keys=await self.tenancy.keys(), tenants=await self.tenancy.tenants(), orgs=await self.tenancy.orgs()
        )

    async def act(self, request: Request, what: str, target: str = "", *, tenant: TenantId = NO_TENANT) -> Act:
        """Return the act that an operator is about to do; raises like ``operator``."""
        return self.act_of(await self.operator(request), what, target, tenant=tenant)

    def act_of(self, caller: Caller, what: str, target: str = "", *, tenant: TenantId = NO_TENANT) -> Act:
        """Return the act that this caller is about to do; ``tenant`` may read of it."""
        return Act(who=caller.key.id, what=what, target=target, at=self.clock.now(), tenant=tenant)


def _bearer(request: Request) -> str:
    scheme, _, credential = request.headers.get("authorization", "").partition(" ")
    return credential.strip() if scheme.lower() == "bearer" else ""
