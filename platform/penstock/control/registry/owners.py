"""Rules for a version's tenants, and for aliases and overrides that depend on them. Pure."""

from collections.abc import Iterable, Mapping

from penstock.domain.errors import Conflict, InvalidField
from penstock.domain.fleet.table import Route
from penstock.domain.ids import VersionId
from penstock.domain.tenancy.owners import MOST_OWNERS, Owned, Owners, said


def checked(tenants: Owners) -> Owners:
    """Return the tenants sorted and unique, or raise ``InvalidField``; None is every tenant."""
    if tenants is None:
        return None
    found = tuple(sorted({*tenants}))
    if not found:
        raise InvalidField("name at least one tenant, or null for every tenant", param="tenants")
    if len(found) > MOST_OWNERS:
        raise InvalidField(f"a version is for {MOST_OWNERS} tenants at most, or for every tenant", param="tenants")
    return found


def check_same(version: VersionId, asked: Owners, owned: Iterable[Owned]) -> None:
    now: Owners = next((one.tenants for one in owned if one.version == version), None)
    if now != asked:
        do = f"penstock models tenants {version}"
        is_added = now is not None and asked is not None and not set(asked) <= set(now)
        alone, both = ",".join(asked or ()), ",".join(sorted({*(now or ()), *(asked or ())}))
        how = f"to add these, {do} {both}" if is_added else f"to take it from all others, {do} {alone}"
        raise Conflict(f"{version} is registered already, for {said(now)}: {how}")


def check_overrides(route: Route, owners: Mapping[VersionId, Owners]) -> None:
    for one in route.overrides:
        theirs = owners.get(one.version)
        if theirs is not None and one.tenant not in theirs:
            do = f"leave that override out, or add the tenant first (penstock models tenants {one.version} …)"
            raise InvalidField(
                f"{one.version} is for {said(theirs)}, and not for {one.tenant}: {do}", param="overrides"
            )
