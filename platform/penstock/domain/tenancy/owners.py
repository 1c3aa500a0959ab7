"""Owners of versions: a version may be restricted to some tenants, and does not exist for others.

An alias has no owners: it exists for a caller that may use one of its versions.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.domain.ids import TenantId, VersionId

Owners = tuple[TenantId, ...] | None
"""A version's tenants, sorted; None for every tenant, empty for operators alone."""
EVERYBODY: Owners = None
MOST_OWNERS = 100
"""Owners of one version: a gateway searches them for each request to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    version: VersionId
    tenants: tuple[TenantId, ...]


def both(one: Owners, other: Owners) -> Owners:
    if one is None or other is None:
        return other if one is None else one
    return tuple(tenant for tenant in one if tenant in other)


def effective(owned: tuple[Owned, ...], bases: Mapping[VersionId, VersionId]) -> dict[VersionId, Owners]:
    """Return owners by restricted version; an adapter inherits its base's."""
    own: dict[VersionId, Owners] = {one.version: one.tenants for one in owned}
    if not own:
        return own
    lent = {adapter: both(own.get(adapter), own[base]) for adapter, base in bases.items() if base in own}
    return own | lent


def said(owners: Owners) -> str:
    if owners is None:
        return "everybody"
    return ", ".join(owners) or "nobody but operators"
