"""A node pool as a team describes it: machines, how they are bought, where, and how they are cut."""

from dataclasses import dataclass, field

from infra.config.kinds import Capacity, Image, Scaler, WarmState


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmPool:
    """Booted machines that wait beside the group. It buys latency, never capacity."""

    min_size: int
    max_prepared: int
    state: WarmState
    reuse_on_scale_in: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Paid capacity in one zone. Penstock consumes the id; buying it is a person's act."""

    id: str
    zone_id: str
    expires: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One node pool. `max_size` bounds the cost and the address plan; `mig` cuts every GPU the same way.

    `likely_size` is the mean number of machines for the planned traffic (`penstock plan`); unset, the least.
    """

    name: str
    capacity: Capacity
    scaler: Scaler
    image: Image
    instance_types: tuple[str, ...]
    min_size: int
    max_size: int
    disk_gib: int
    likely_size: int | None = None
    zone_ids: tuple[str, ...] = ()
    warm_pool: WarmPool | None = None
    reservation: Reservation | None = None
    mig: dict[str, int] = field(default_factory=dict)
    efa: bool = False
    role: str = "gpu"

    @property
    def likely(self) -> int:
        """The mean number of machines; capacity that is paid ahead is there in full."""
        return self.max_size if self.reservation else self.min_size if self.likely_size is None else self.likely_size

    @property
    def gpu(self) -> bool:
        """Whether the pool's nodes carry GPUs."""
        return self.role == "gpu"
