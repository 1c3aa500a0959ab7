"""Nouns of batching: an item, the key that items of a batch share, the report of a batch."""

from dataclasses import dataclass
from enum import StrEnum
from math import inf

from penstock.domain.ids import TenantId, VersionId
from penstock.domain.serving.batched import Trigger
from penstock.domain.tenancy.standing import Standing

_OFFLINE = frozenset({Standing.SHADOW, Standing.BATCH, Standing.OVER_QUOTA})


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """Properties that a batch's items share."""

    version: VersionId
    dtype: str = ""
    bucket: int = 0
    """The tokens or pixels to which each of its items is padded; 0 pads them to the longest of the batch."""
    shape: tuple[int, ...] = ()
    arguments: tuple[str, ...] = ()
    """Arguments of the task that change the graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One input to compute; ``deadline_at`` is in monotonic seconds, 0 without one.

    The digest identifies a poisonous input; an empty one is never quarantined.
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
    """Its tenant's among those whose items are computed here."""


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
    """The part of what was computed that was padding."""
    window_s: float
    """How long an interactive item could have waited for a batch of this size."""
    predicted_s: float
    """The p99 of its compute, as it was predicted."""
    compute_s: float | None

    @property
    def fill_ratio(self) -> float:
        return self.size / self.most_items


class Left(StrEnum):
    """The reason why an item has no result; also a metric's label."""

    CANCELLED = "cancelled"
    EXPIRED = "expired"
    LATE = "late"
    """It could not be in time any more, and would have cost others their deadlines."""
    POISONED = "poisoned"
    QUARANTINED = "quarantined"
    OUT_OF_MEMORY = "out_of_memory"
    LOST = "lost"
    """What computes was gone."""
    CLOSING = "closing"
