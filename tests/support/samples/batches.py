"""Items and devices for tests of batching."""

from dataclasses import replace
from typing import TypedDict, Unpack

from penstock.domain.ids import TenantId, VersionId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.batching.items import Item, Key

KEY = Key(version=VersionId("toy@1"))


class _Wanted(TypedDict, total=False):
    key: Key
    cost: int
    deadline_at: float
    standing: Standing
    payload: object
    digest: bytes
    weight: float


_USUAL = Item(
    key=KEY,
    cost=10,
    deadline_at=0.0,
    standing=Standing.INTERACTIVE,
    tenant=TenantId("acme"),
    payload=None,
)


def item(tenant: str = "acme", **wanted: Unpack[_Wanted]) -> Item:
    return replace(_USUAL, tenant=TenantId(tenant), **wanted)


def affine(fixed_s: float = 0.01, per_item_s: float = 0.002) -> "Affine":
    """Return a device with a fixed time for a batch and a time for each item."""
    return Affine(fixed_s, per_item_s)


class Affine:
    """A device with the time of a batch on a straight line."""

    def __init__(self, fixed_s: float, per_item_s: float) -> None:
        self.fixed_s, self.per_item_s = fixed_s, per_item_s

    def seconds(self, size: int) -> float:
        return self.fixed_s + self.per_item_s * size

    def __call__(self, key: Key, size: int, at: float) -> float:
        return self.seconds(size)
