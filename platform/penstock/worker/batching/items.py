"""Values of batching: an item, the key that items of a batch share, the report of a batch."""

from dataclasses import dataclass
from enum import StrEnum
from math import inf

from penstock.domain.ids import TenantId, VersionId
from penstock.domain.serving.report import Trigger
from penstock.domain.tenancy.standing import Standing

_OFFLINE = frozenset({Standing.SHADOW, Standing.BATCH, Standing.OVER_QUOTA})


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    version: VersionId
    dtype: str = ""
    bucket: int = 0
    """The tokens or pixels to which each item is padded; 0 pads items to the longest of the batch."""
    shape: tuple[int, ...] = ()
    arguments: tuple[str, ...] = ()
    """The task's arguments that change the compute graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """``deadline_at`` is monotonic, 0 without one. The digest identifies a poisonous input; an empty one is never
    quarantined.
    """

    key: Key
    cost: int
    """Tokens or pixels."""
    deadline_at: float
    standing: Standing
    tenant: TenantId
    payload: object
    digest: bytes = b""
    weight: float = 1.0
    """The tenant's weight among tenants with items here."""


@dataclass(slots=True, eq=False)
class Waiting:
    item: Item
    came_at: float

    @property
    def is_offline(self) -> bool:
        return self.item.standing in _OFFLINE

    @property
    def deadline_at(self) -> float:
        return self.item.deadline_at or inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    key: Key
    trigger: Trigger
    size: int
    most_items: int
    waits_s: tuple[float, ...]
    padding_ratio: float
    """The part of the computed tokens or pixels that was padding."""
    window_s: float
    """The longest wait of an interactive item for a batch of this size."""
    predicted_s: float
    """The predicted p99 of the compute time."""
    compute_s: float | None

    @property
    def fill_ratio(self) -> float:
        return self.size / self.most_items


class Left(StrEnum):
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    LATE = "late"
    """The item could no longer meet its deadline."""
    POISONED = "poisoned"
    QUARANTINED = "quarantined"
    OUT_OF_MEMORY = "out_of_memory"
    LOST = "lost"
    """The computing process was lost."""
    CLOSING = "closing"
