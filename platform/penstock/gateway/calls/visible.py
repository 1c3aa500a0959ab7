"""The part of a routing table visible to a caller: other tenants' versions do not exist for it, under any name. Pure.

A key's permitted models are checked elsewhere.
"""

from collections.abc import Mapping

from penstock.domain.fleet.table import Route, Share, VersionEntry
from penstock.domain.tenancy.tenant import Principal


def shares_of(route: Route, versions: Mapping[str, VersionEntry], who: Principal) -> tuple[Share, ...]:
    """Return the shares visible to the caller; without any, the alias does not exist for it.

    A version without weight answers only tenants with an override.
    """
    own = next((one.version for one in route.overrides if one.tenant == who.tenant), None)
    return tuple(
        share
        for share in route.shares
        if (share.weight > 0 or share.version == own) and who.sees(versions[share.version].tenants)
    )
