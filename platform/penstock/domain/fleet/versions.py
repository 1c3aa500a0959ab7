"""What the decision corridor exchanges: what should run, what was seen running, what to change."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.domain.fleet.decision import Decision
from penstock.domain.fleet.table import Route
from penstock.domain.fleet.worker import WorkerOrder, WorkerReport
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.models.adapter import bases_of
from penstock.domain.models.model import ModelVersion
from penstock.domain.serving.auto import Auto
from penstock.domain.tenancy.owners import Owned, Owners, effective


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """How many workers of a version there should be, and which of them an operator wants replaced.

    Workers started before ``renew_before`` (Unix seconds) and those named in ``renew`` are replaced one at a time.
    """

    version: VersionId
    replicas: int
    renew_before: float = 0.0
    renew: tuple[WorkerId, ...] = ()
    pinned: bool = False
    """Its workers never sleep, whoever else wants the memory; an adapter's are its base's, and never let go of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """What exists: versions, aliases, and what of it should run."""

    versions: tuple[ModelVersion, ...] = ()
    routes: tuple[Route, ...] = ()
    deployments: tuple[Deployment, ...] = ()
    autos: tuple[Auto, ...] = ()
    owned: tuple[Owned, ...] = ()
    """Versions that are not for everybody."""

    @property
    def staffed(self) -> tuple[Deployment, ...]:
        """Deployments of versions that have workers of their own: an adapter's are those of its base."""
        adapters = {version.id for version in self.versions if version.manifest.adapter is not None}
        return tuple(one for one in self.deployments if one.version not in adapters) if adapters else self.deployments

    @property
    def kept(self) -> frozenset[VersionId]:
        """Versions whose workers never sleep: those that are pinned, and the bases of adapters that are."""
        pinned = [one.version for one in self.deployments if one.pinned and one.replicas]
        bases = bases_of(self.versions) if pinned else {}
        return frozenset(bases.get(one, one) for one in pinned)

    @property
    def pinned_adapters(self) -> dict[VersionId, tuple[VersionId, ...]]:
        """Return the adapters of each base that its workers load first and never let go."""
        pinned = sorted(one.version for one in self.deployments if one.pinned and one.replicas)
        bases = bases_of(self.versions) if pinned else {}
        found: dict[VersionId, tuple[VersionId, ...]] = {}
        for one in pinned:
            if one in bases:
                found[bases[one]] = (*found.get(bases[one], ()), one)
        return found

    @property
    def owners(self) -> dict[VersionId, Owners]:
        """Return the tenants of each version that is not for everybody; an adapter is for those of its base as well."""
        return effective(self.owned, bases_of(self.versions)) if self.owned else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A worker's last heartbeat and when it came (Unix seconds), with what the ones before it said."""

    report: WorkerReport
    at: float
    since: float = 0.0
    """When it was first heard of in this state; 0 where nobody here has seen it come to it."""
    used_at: float = 0.0
    """When it last had work; 0 where nobody has seen any."""
    uses: float = 0.0
    """How often it was given work after it had none, each time counted for less as it gets older, as of ``used_at``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A version that gateways hold requests for, because nobody serves it.

    ``since`` is when it began to be wanted without a break (Unix seconds, the controller's clock).
    """

    version: VersionId
    requests: int
    tokens: int
    since: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A worker whose process exists; ``draining`` once it was told to go. ``started_at`` is Unix seconds."""

    worker: WorkerId
    version: VersionId
    started_at: float
    draining: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """A worker whose process ended without having been told to, and when that was noticed (Unix seconds)."""

    worker: WorkerId
    version: VersionId
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """What the host of the workers sees.

    ``since`` is when this controller began to listen (Unix seconds): earlier silence is held against nobody.
    """

    running: tuple[Running, ...] = ()
    deaths: tuple[Death, ...] = ()
    since: float = 0.0
    is_known: bool = True
    """False where the host can't be asked now: what is missing here may exist all the same."""
    placed: tuple[VersionId, ...] = ()
    """Versions that the host keeps something of, with workers or without: it numbers these itself."""
    held: tuple[str, ...] = ()
    """What the host could not bring about, and the remedy, in words."""
    orders: Mapping[WorkerId, WorkerOrder] = field(default_factory=dict)
    """Who was told last to sleep, or to wake (``serve``), by this controller."""
    wanted: tuple[Wanted, ...] = ()
    """Versions that somebody waits for."""
    moving: frozenset[VersionId] = frozenset()
    """Versions of rollouts that are not over: they never sleep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A version that a host is to serve that numbers its workers itself: how few there may be, what one needs.

    One worker takes ``gpus`` devices that hold ``held_bytes`` together: weights and KV cache. Workers from before
    ``renew_before`` (Unix seconds) are replaced.
    """

    version: VersionId
    least: int
    gpus: int = 1
    held_bytes: int = 0
    renew_before: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """What to change: versions to start a worker of (repeated per worker), workers to drain.

    A host that numbers workers itself is told which versions it serves (``served``, None: nothing is said of them),
    which it keeps nothing of any more (``withdrawn``), and which drained workers may end (``ended``).
    """

    start: tuple[VersionId, ...] = ()
    drain: tuple[WorkerId, ...] = ()
    served: tuple[Served, ...] | None = None
    withdrawn: tuple[VersionId, ...] = ()
    ended: tuple[WorkerId, ...] = ()
    why: tuple[Decision, ...] = field(default=(), compare=False)
    """The reasons of all that, for people."""
    sleep: tuple[WorkerId, ...] = ()
    """Ready workers that are to give their engine's memory back, and stay."""
    wake: tuple[WorkerId, ...] = ()
    """Sleeping workers that are to serve again."""
    held_bytes: int = field(default=0, compare=False)
    """What those hold now of the pool that are awake."""
    unfit: tuple[str, ...] = field(default=(), compare=False)
    """Deployed versions that the whole pool is too small for, each in words."""

    @property
    def is_empty(self) -> bool:
        """True where nothing is to be done."""
        return not (self.start or self.drain or self.sleep or self.wake) and self.served is None


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRoute:
    """What an alias was set to (None: taken away), by whom and when (Unix seconds)."""

    route: Route | None
    who: str
    at: float
