"""What of a table is there for a caller: a version that is others' alone is not, under whatever name. Pure.

What a key's scope holds is another question, and is asked beside this one.
"""

from collections.abc import Mapping

from penstock.domain.fleet.table import Route, Share, VersionEntry
from penstock.domain.tenancy.tenant import Principal


def shares_of(route: Route, versions: Mapping[str, VersionEntry], who: Principal) -> tuple[Share, ...]:
    """Return the shares of an alias that may answer this caller; if there are none, there is no such alias for it.

    A version without weight answers only a tenant that has it by an override.
    """
    own = next((one.version for one in route.overrides if one.tenant == who.tenant), None)
    return tuple(
        share
        for share in route.shares
        if (share.weight > 0 or share.version == own) and who.sees(versions[share.version].tenants)
    )
