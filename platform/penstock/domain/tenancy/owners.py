"""Whose versions are: some are for certain tenants alone, and for nobody else there are none of that name.

An alias has no tenants of its own: it is there for whoever may have one of the versions that it leads to.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.domain.ids import TenantId, VersionId

Owners = tuple[TenantId, ...] | None
"""The tenants that a version is there for, sorted; None for everybody, and empty for nobody but operators."""
EVERYBODY: Owners = None
MOST_OWNERS = 100
"""Tenants of one version: a gateway looks through them with each request for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """A version that is not for everybody."""

    version: VersionId
    tenants: tuple[TenantId, ...]


def both(one: Owners, other: Owners) -> Owners:
    """Return whom something is for that needs two versions, an adapter and its base: the tenants of both."""
    if one is None or other is None:
        return other if one is None else one
    return tuple(tenant for tenant in one if tenant in other)


def effective(owned: tuple[Owned, ...], bases: Mapping[VersionId, VersionId]) -> dict[VersionId, Owners]:
    """Return the tenants of each version that is not for everybody; an adapter of ``bases`` is for those of both."""
    own: dict[VersionId, Owners] = {one.version: one.tenants for one in owned}
    if not own:
        return own
    lent = {adapter: both(own.get(adapter), own[base]) for adapter, base in bases.items() if base in own}
    return own | lent


def said(owners: Owners) -> str:
    """Say it in words."""
    if owners is None:
        return "everybody"
    return ", ".join(owners) or "nobody but operators"
