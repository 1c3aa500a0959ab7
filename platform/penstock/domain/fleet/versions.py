"""Values of the controller's tick: deployments, heartbeats, plans."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.domain.fleet.decision import Decision
from penstock.domain.fleet.scaling import Override, Target
from penstock.domain.fleet.table import Route
from penstock.domain.fleet.worker import WorkerOrder, WorkerReport, WorkerState
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.models.adapter import bases_of
from penstock.domain.models.model import ModelVersion
from penstock.domain.serving.auto import Auto
from penstock.domain.tenancy.owners import Owned, Owners, effective


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Workers started before ``renew_before`` (Unix seconds) and those in ``renew`` are replaced one at a time."""

    version: VersionId
    replicas: int
    renew_before: float = 0.0
    renew: tuple[WorkerId, ...] = ()
    pinned: bool = False
    """The version's workers never sleep; for a pinned adapter, the base's workers never sleep and never unload it."""
    override: Override | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    versions: tuple[ModelVersion, ...] = ()
    routes: tuple[Route, ...] = ()
    deployments: tuple[Deployment, ...] = ()
    autos: tuple[Auto, ...] = ()
    owned: tuple[Owned, ...] = ()
    """Versions restricted to some tenants."""

    @property
    def staffed(self) -> tuple[Deployment, ...]:
        """An adapter runs on its base's workers."""
        adapters = {version.id for version in self.versions if version.manifest.adapter is not None}
        return tuple(one for one in self.deployments if one.version not in adapters) if adapters else self.deployments

    @property
    def kept(self) -> frozenset[VersionId]:
        """Workers of pinned versions, and of bases of pinned adapters, never sleep."""
        pinned = [one.version for one in self.deployments if one.pinned and one.replicas]
        bases = bases_of(self.versions) if pinned else {}
        return frozenset(bases.get(one, one) for one in pinned)

    @property
    def pinned_adapters(self) -> dict[VersionId, tuple[VersionId, ...]]:
        """Return pinned adapters by base: they are loaded first and never unloaded."""
        pinned = sorted(one.version for one in self.deployments if one.pinned and one.replicas)
        bases = bases_of(self.versions) if pinned else {}
        found: dict[VersionId, tuple[VersionId, ...]] = {}
        for one in pinned:
            if one in bases:
                found[bases[one]] = (*found.get(bases[one], ()), one)
        return found

    @property
    def owners(self) -> dict[VersionId, Owners]:
        return effective(self.owned, bases_of(self.versions)) if self.owned else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The last heartbeat, its time (Unix seconds), and facts from earlier ones."""

    report: WorkerReport
    at: float
    since: float = 0.0
    """Time of the first heartbeat in this state; 0 if the change was not observed."""
    used_at: float = 0.0
    """Time of the worker's last work; 0 if none was observed."""
    uses: float = 0.0
    """The number of times that an idle worker was given work, each discounted by age, as of ``used_at``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Gateways hold its requests because none of its workers serves. ``since`` is the begin of the uninterrupted wait
    (Unix seconds, the controller's clock).
    """

    version: VersionId
    requests: int
    tokens: int
    since: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """``draining`` once it has the order to drain. ``started_at`` is Unix seconds."""

    worker: WorkerId
    version: VersionId
    started_at: float
    draining: bool = False
    machine_s: float = 0.0
    """Seconds from the request for a node to one with a free device; 0 if the host measures none."""
    image_s: float = 0.0
    """Seconds from the node to the process: volumes, and the image's pull; 0 if the host measures none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """An end without an order, at the Unix second at which the host noticed it."""

    worker: WorkerId
    version: VersionId
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """``since`` is when this controller began to listen (Unix seconds): earlier silence does not count."""

    running: tuple[Running, ...] = ()
    deaths: tuple[Death, ...] = ()
    ended: frozenset[WorkerId] = frozenset()
    """Workers that were told to drain and have no process any more."""
    since: float = 0.0
    is_known: bool = True
    """False if the host can't be asked now: workers missing here may still exist."""
    placed: tuple[VersionId, ...] = ()
    """Versions of which the host keeps objects, with or without workers: it starts and ends workers by number."""
    most: Mapping[VersionId, int] = field(default_factory=dict)
    """The workers that the host has places for, of each version of its last plan; empty if that is not known."""
    prices: Mapping[VersionId, float] = field(default_factory=dict)
    """Dollars an hour of one worker, of each version of the last plan with a known price."""
    devices: Mapping[VersionId, str] = field(default_factory=dict)
    """The device of each version of the last plan; empty if all machines are alike."""
    held: tuple[str, ...] = ()
    """Changes that the host could not make, and the remedies, in words."""
    orders: Mapping[WorkerId, WorkerOrder] = field(default_factory=dict)
    """The workers that this controller last told to sleep or to wake (``serve``)."""
    wanted: tuple[Wanted, ...] = ()
    """Versions with held requests."""
    moving: frozenset[VersionId] = frozenset()
    """Versions of rollouts in progress: they never sleep."""
    targets: Mapping[VersionId, Target] = field(default_factory=dict)
    """The numbers of versions that are scaled, in place of their deployments'."""

    def living(self, seen: Sequence[Seen]) -> Sequence[Seen]:
        """Leave out workers that have ended since: nothing waits for their silence."""
        ended_at = {death.worker: death.at for death in self.deaths} | dict.fromkeys(self.ended, math.inf)
        return [one for one in seen if one.at > ended_at.get(one.report.worker, 0.0)] if ended_at else seen

    def offered(self, seen: Sequence[Seen]) -> Sequence[Seen]:
        """Cordoned workers drain, so that they get no new requests."""
        cordoned = frozenset(worker for one in self.targets.values() for worker in one.cordoned)
        living = self.living(seen)
        return [_draining(one) if one.report.worker in cordoned else one for one in living] if cordoned else living


def _draining(one: Seen) -> Seen:
    return replace(one, report=replace(one.report, state=WorkerState.DRAINING)) if one.report.state.serves else one


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A version on a host that starts workers by number.

    With ``is_scaled`` the autoscaler decides it and names the workers that leave. A worker takes ``gpus`` devices that
    hold ``held_bytes`` together: weights and KV cache. Workers started before ``renew_before`` (Unix seconds) are
    replaced.
    """

    version: VersionId
    least: int
    workers: int
    is_scaled: bool = False
    gpus: int = 1
    held_bytes: int = 0
    renew_before: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """Versions to start a worker of (repeated per worker), workers to drain.

    For a host that sets worker counts itself: the versions it serves (``served``, None: unchanged), those it drops
    (``withdrawn``), and the drained workers that may end (``ended``).
    """

    start: tuple[VersionId, ...] = ()
    drain: tuple[WorkerId, ...] = ()
    cached: Mapping[VersionId, Sequence[WorkerId]] = field(default_factory=dict, compare=False)
    """The workers whose nodes' caches hold a version that came ahead."""
    served: tuple[Served, ...] | None = None
    withdrawn: tuple[VersionId, ...] = ()
    ended: tuple[WorkerId, ...] = ()
    why: tuple[Decision, ...] = field(default=(), compare=False)
    """The reasons for the plan's changes, for people."""
    sleep: tuple[WorkerId, ...] = ()
    """Ready workers that are to free their engine's memory and stay."""
    wake: tuple[WorkerId, ...] = ()
    """Sleeping workers that are to serve again."""
    held_bytes: int = field(default=0, compare=False)
    """Bytes of the pool held by workers that are awake."""
    unfit: tuple[str, ...] = field(default=(), compare=False)
    """Deployed versions larger than the whole pool, each in words."""

    @property
    def is_empty(self) -> bool:
        return not (self.start or self.drain or self.sleep or self.wake) and self.served is None


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRoute:
    """A former route, None if it was removed; with its author and time (Unix seconds)."""

    route: Route | None
    who: str
    at: float
