"""The routing table: an immutable, numbered snapshot, the only input that gateways take from the controller.

A gateway serves from the last good one while controller and database are unavailable (I2, I3).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.domain.errors import TableRefused
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import NO_VERSION, Alias, TenantId, VersionId, WorkerId
from penstock.domain.models.model import SHORT_DIGEST, HandlerSettings, SamplingDefaults, Task, Tier
from penstock.domain.money import Price
from penstock.domain.serving.auto import MOST_AUTOS, Auto, fault
from penstock.domain.serving.report import Load
from penstock.domain.serving.shadow import Shadow
from penstock.domain.tenancy.owners import EVERYBODY, Owners

WEIGHT_TOTAL = 10_000
"""The sum of the weights of an alias's versions."""
MOST_OVERRIDES = 1_000
"""Overrides of one alias: every gateway has them all in each of its tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEntry:
    """No address while it starts; ``ready_in_s`` estimates the rest of its start."""

    id: WorkerId
    url: str
    state: WorkerState
    zone: str = ""
    load: Load = field(default_factory=Load)
    ready_in_s: float = 0.0
    key_mark: str = ""
    """The mark of the secret that the worker holds, while the platform's key is exchanged."""
    adapters: tuple[VersionId, ...] = ()
    """Adapters whose weights the engine holds, checked and ready to answer."""
    pools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionEntry:
    id: VersionId
    digest: str
    task: Task
    tier: Tier
    price: Price
    max_model_len: int
    block_size: int
    tokenizer_sha256: str
    """Blob key of ``tokenizer.json`` in the artifact store, readable by the gateway."""
    special_tokens: tuple[tuple[str, str], ...] = ()
    """Names and texts that the chat template may use, for example ``("bos_token", "<s>")``."""
    chat_template: str = ""
    """Empty for an adapter in a published table: a gateway reads the base's template."""
    sampling: SamplingDefaults = field(default_factory=SamplingDefaults)
    max_num_seqs: int = 0
    """Sequences that an engine decodes at once; 0 if the table doesn't say."""
    workers: tuple[WorkerEntry, ...] = ()
    start_s: float = 0.0
    """Measured seconds of a start of the version's workers; 0 before the first."""
    kin_start_s: float = 0.0
    """The longest measured start of a version of the same kind, for a version without a start of its own; 0 without
    any.
    """
    is_crowded_out: bool = False
    """Whether pinned versions hold all of the pool that its workers would need, so that none can wake or start."""
    is_unwanted: bool = False
    """Whether no worker of the version is deployed, so that none starts until an operator scales it."""
    restart_s: float = 0.0
    """Seconds of a restart in place, without fetching and imports; 0 before the first start."""
    handler: HandlerSettings | None = None
    """Inputs and outputs of a model that vLLM does not run."""
    base: VersionId = NO_VERSION
    """The base of an adapter; the base's workers serve the adapter."""
    tool_parser: str = ""
    """The engine's parser of this model's tool calls; empty if it makes none."""
    renders: tuple[str, ...] | None = None
    """Parts of a request that the chat template shows; None if the table doesn't say."""
    tenants: Owners = EVERYBODY
    """The version's tenants; of an adapter also the base's."""
    safety: tuple[str, ...] = ()
    """The manifest's safety packs; of an adapter also the base's."""

    @property
    def counts_by_item(self) -> bool:
        return self.handler is not None and self.handler.item_tokens > 0

    def is_outside(self, pools: frozenset[str]) -> bool:
        """Tell whether it has workers, and none of them in these pools."""
        return bool(self.workers) and all(pools.isdisjoint(worker.pools) for worker in self.workers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    version: VersionId
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """The tenant always gets this version of the alias."""

    tenant: TenantId
    version: VersionId


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """An alias and its versions; weights add up to ``WEIGHT_TOTAL``."""

    alias: Alias
    shares: tuple[Share, ...]
    fallback: VersionId = NO_VERSION
    """The version that takes over new requests of the others when they can take none; empty for none."""
    overrides: tuple[Override, ...] = ()
    shadow: Shadow | None = None
    """The version that is sent copies of requests that the others have answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingTable:
    """``number`` only grows; ``made_at`` is Unix seconds."""

    number: int
    made_at: float
    routes: tuple[Route, ...] = ()
    versions: tuple[VersionEntry, ...] = ()
    autos: tuple[Auto, ...] = ()


EMPTY = RoutingTable(number=0, made_at=0.0)


def by_digest(versions: Iterable[VersionEntry], name: str) -> VersionEntry | None:
    """Find ``name@digest`` with a longer digest than ids have; None if none or several match."""
    model, _, digits = name.partition("@")
    if len(digits) <= SHORT_DIGEST:
        return None
    known = [one for one in versions if one.digest.startswith(digits) and one.id.startswith(f"{model}@")]
    return known[0] if len(known) == 1 else None


def validate(table: RoutingTable) -> RoutingTable:
    known = {v.id for v in table.versions}
    if len(known) != len(table.versions):
        raise TableRefused("the table lists a version twice")
    if len({r.alias for r in table.routes}) != len(table.routes):
        raise TableRefused("the table lists an alias twice")
    for route in table.routes:
        _validate_route(route, known)
    _validate_autos(table, known)
    workers = [w.id for v in table.versions for w in v.workers]
    if len(set(workers)) != len(workers):
        raise TableRefused("the table lists a worker twice")
    bases = {version.id for version in table.versions if not version.base}
    for version in table.versions:
        _validate_version(version)
        if version.base and (version.base not in bases or version.workers):
            raise TableRefused(f"the adapter {version.id} has workers of its own, or no base in the table")
    return table


def _validate_autos(table: RoutingTable, known: set[VersionId]) -> None:
    autos = {auto.alias for auto in table.autos}
    if len(autos) != len(table.autos) or len(autos) > MOST_AUTOS:
        raise TableRefused(f"the table lists an auto alias twice, or more than {MOST_AUTOS}")
    targets = {*(route.alias for route in table.routes), *known}
    for auto in table.autos:
        if wrong := fault(auto, targets, autos):
            raise TableRefused(f"auto alias {auto.alias}: {wrong}")


def _validate_route(route: Route, known: set[VersionId]) -> None:
    for share in route.shares:
        if share.version not in known:
            raise TableRefused(f"alias {route.alias} names the unknown version {share.version}")
        if share.weight < 0:
            raise TableRefused(f"alias {route.alias} gives {share.version} a negative weight")
    if sum(s.weight for s in route.shares) != WEIGHT_TOTAL:
        raise TableRefused(f"the weights of alias {route.alias} do not add up to {WEIGHT_TOTAL}")
    _validate_exceptions(route)


def _validate_exceptions(route: Route) -> None:
    """Check fallback, overrides and shadow."""
    own = {share.version for share in route.shares}
    if route.fallback and route.fallback not in own:
        raise TableRefused(f"alias {route.alias} falls back to {route.fallback}, which is none of its versions")
    for override in route.overrides:
        if override.version not in own:
            raise TableRefused(f"alias {route.alias} gives {override.tenant} {override.version}, none of its versions")
    if route.shadow is not None and route.shadow.version not in own:
        raise TableRefused(f"alias {route.alias} is copied to {route.shadow.version}, none of its versions")
    if len({override.tenant for override in route.overrides}) != len(route.overrides):
        raise TableRefused(f"alias {route.alias} has two overrides for one tenant")


def _validate_version(version: VersionEntry) -> None:
    if version.max_model_len <= 0 or version.block_size <= 0:
        raise TableRefused(f"{version.id} has no context length or block size")
    for worker in version.workers:
        has_address = worker.url.startswith(("http://", "https://"))
        if not has_address and (worker.url or worker.state.serves):
            raise TableRefused(f"worker {worker.id} has no address")
