"""Operators: versions and their deployments."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from fastapi import APIRouter, Response

from penstock.control.api.acts import ActRoute
from penstock.control.api.bodies import NewCurve, NewModel, NewOwners, NewReplicas
from penstock.control.api.deps import Control, Controlled, Operator
from penstock.control.api.safety import check_asked, check_packs
from penstock.control.api.wire import Sent
from penstock.control.registry import adapters
from penstock.control.registry.packs import check_judged
from penstock.domain.errors import InvalidField
from penstock.domain.fleet.table import Route
from penstock.domain.fleet.versions import Catalogue, Deployment
from penstock.domain.ids import NO_VERSION, Alias, ModelName, TenantId, VersionId, WorkerId
from penstock.domain.models.adapter import bases_of
from penstock.domain.models.curves import Curve, best
from penstock.domain.models.model import EngineSettings, ModelVersion, Task, Tier
from penstock.domain.money import Price
from penstock.domain.tenancy.owners import Owned, Owners

router = APIRouter(tags=["models"], route_class=ActRoute)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShown:
    """A version in a list."""

    id: VersionId
    name: ModelName
    task: Task
    tier: Tier
    price: Price
    licence: str
    size_bytes: int
    created_at: float
    replicas: int
    pinned: bool
    states: Mapping[str, int]
    """The version's workers by state, in the table in force."""
    aliases: tuple[Alias, ...]
    base: VersionId = NO_VERSION
    """Of an adapter: the version whose workers serve it."""
    resident: tuple[WorkerId, ...] = ()
    """Of an adapter: the workers whose engines hold it now."""
    refused: tuple[str, ...] = ()
    """Of an adapter: the workers that refused it last, and the reasons."""
    tenants: Owners = None
    """The only tenants that have the version, an adapter's also its base's; null is every tenant."""
    engine: Mapping[str, str] = field(default_factory=dict)
    """Engine settings that are not the defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelList:
    """Versions, and their use."""

    models: tuple[ModelShown, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnersShown:
    """A version's only tenants, and the aliases that lead to it."""

    version: VersionId
    tenants: Owners
    aliases: tuple[Alias, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveList:
    """A version's curves, one of each hardware."""

    curves: tuple[Curve, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentList:
    """The deployments of all versions."""

    deployments: tuple[Deployment, ...]


@router.post("/models", status_code=201, responses={200: {"model": ModelVersion}})
async def register(control: Controlled, caller: Operator, body: Sent[NewModel], response: Response) -> ModelVersion:
    """Register a version; the same bytes again are the same version (200 instead of 201), for the same tenants."""
    act = control.act(caller, "model.register")
    await check_packs(control.packs, body.manifest.safety, "manifest.safety")
    if body.manifest.safety:
        check_judged(body.manifest, await control.packs.packs(), await control.registry.store.catalogue())
    await _check_known(control, body.tenants)
    version = await control.registry.register(body.manifest, body.signature, act, body.tenants)
    response.status_code = 201 if version.created_at == act.at else 200
    return version


@router.get("/models")
async def models(control: Controlled, _: Operator) -> ModelList:
    """List versions and their use."""
    registry = control.registry
    deployed = {one.version: one for one in await registry.store.deployments()}
    routes, versions = await registry.store.routes(), await registry.store.versions()
    bases, owners = bases_of(versions), await registry.owners()
    seen, now = await control.heartbeats.seen(), control.clock.now()
    holders, refusals = adapters.holders(seen, now), adapters.refusals(seen, now)
    table = await control.tables.latest()
    states = {one.id: Counter(str(worker.state) for worker in one.workers) for one in table.versions}
    return ModelList(
        models=tuple(
            ModelShown(
                id=version.id,
                name=version.manifest.name,
                task=version.manifest.task,
                tier=version.manifest.tier,
                price=version.manifest.price,
                licence=version.manifest.provenance.licence,
                size_bytes=version.manifest.size_bytes,
                created_at=version.created_at,
                replicas=deployed[version.id].replicas if version.id in deployed else 0,
                pinned=version.id in deployed and deployed[version.id].pinned,
                states=dict(states.get(version.id, {})),
                aliases=tuple(route.alias for route in routes if _leads_to(route, version.id)),
                base=bases.get(version.id, NO_VERSION),
                resident=holders.get(version.id, ()),
                refused=refusals.get(version.id, ()),
                tenants=owners.get(version.id),
                engine=_unusual(version.manifest.engine),
            )
            for version in versions
        )
    )


@router.get("/models/{version}")
async def model(control: Controlled, _: Operator, version: VersionId) -> ModelVersion:
    """Show a version with its manifest."""
    return await control.registry.version(version)


@router.get("/models/{version}/curves")
async def curves(control: Controlled, _: Operator, version: VersionId) -> CurveList:
    """List a version's curves by hardware: the measured ones, and those that its workers report."""
    stored = await control.registry.curves(version)
    seen = await control.heartbeats.seen()
    return CurveList(curves=best(stored, [one.report.curve for one in seen if one.report.version == version]))


@router.put("/models/{version}/curves")
async def put_curve(control: Controlled, caller: Operator, version: VersionId, body: Sent[NewCurve]) -> Curve:
    """Set a version's curve of its hardware, as `penstock bench engine` measured it."""
    return await control.registry.put_curve(version, body.curve, control.act(caller, "model.curve", version))


@router.put("/models/{version}/tenants")
async def put_owners(control: Controlled, caller: Operator, version: VersionId, body: Sent[NewOwners]) -> OwnersShown:
    """Set the only tenants that have a version; to all others its name and its aliases do not exist."""
    act = control.act(caller, "model.tenants", version)
    await _check_known(control, body.tenants)
    for one in await control.registry.of_base(version):
        await control.rollouts.check_idle(one)
    if body.tenants is not None:
        mine = Owned(version=version, tenants=body.tenants)
        await check_asked(control, lambda known: replace(known, owned=(*known.owned, mine)))
    tenants = await control.registry.put_owners(version, body.tenants, act)
    aliases = tuple(route.alias for route in await control.registry.store.routes() if _leads_to(route, version))
    return OwnersShown(version=version, tenants=tenants, aliases=aliases)


@router.get("/deployments")
async def deployments(control: Controlled, _: Operator) -> DeploymentList:
    """List the deployments of all versions."""
    return DeploymentList(deployments=await control.registry.store.deployments())


@router.put("/deployments/{version}")
async def put_deployment(
    control: Controlled, caller: Operator, version: VersionId, body: Sent[NewReplicas]
) -> Deployment:
    """Set the number of a version's workers."""
    act = control.act(caller, "deployment.put", version)
    if not body.replicas:
        await control.rollouts.check_idle(version)
        await check_asked(control, lambda known: _without(known, version))
    return await control.registry.put_replicas(version, body.replicas, act)


@router.put("/deployments/{version}/pin")
async def pin(control: Controlled, caller: Operator, version: VersionId) -> Deployment:
    """Keep a version's workers awake, and wake those that sleep."""
    return await _pin(control, caller, version, pinned=True)


@router.delete("/deployments/{version}/pin")
async def unpin(control: Controlled, caller: Operator, version: VersionId) -> Deployment:
    """Let a version's workers sleep when others need their memory."""
    return await _pin(control, caller, version, pinned=False)


@router.post("/deployments/{version}/restart", status_code=202)
async def restart(control: Controlled, caller: Operator, version: VersionId) -> Deployment:
    """Replace every worker of a version, one at a time, each new one ready before an old one drains."""
    return await control.registry.renew_all(version, control.act(caller, "deployment.restart", version))


def _without(known: Catalogue, version: VersionId) -> Catalogue:
    return replace(known, deployments=tuple(one for one in known.deployments if one.version != version))


async def _pin(control: Control, caller: Operator, version: VersionId, *, pinned: bool) -> Deployment:
    act = control.act(caller, "deployment.pin" if pinned else "deployment.unpin", version)
    return await control.registry.pin(version, act, pinned=pinned)


async def _check_known(control: Control, tenants: Owners) -> None:
    known = {tenant.id for tenant in (await control.ring()).tenants} if tenants else set[TenantId]()
    for one in tenants or ():
        if one not in known:
            raise InvalidField(f"there is no tenant {one[:80]} (penstock tenants list)", param="tenants")


def _unusual(engine: EngineSettings) -> dict[str, str]:
    usual = asdict(EngineSettings())
    return {name: str(value) for name, value in asdict(engine).items() if value != usual[name]}


def _leads_to(route: Route, version: VersionId) -> bool:
    return any(share.version == version for share in route.shares)
