"""Resolves a name to one version. It knows no workers, only whether a version has any that may be asked.

Weighted rendezvous hashing (Mosharaf/Schindelhauer's form) splits an alias: the version with the highest ``-weight /
ln(hash)`` answers, so a change of weights moves exactly the changed share. Other tenants' versions are left out; a
tenant's override comes before hashing. A route's fallback takes new requests while no worker of the version may be
asked.

Trade-off: all requests of a tenant that names neither session nor end user go to one version.
"""

import math
from collections.abc import Callable, Sequence
from hashlib import blake2b

from penstock.domain.errors import TooDear, UnknownModel, UnsupportedByModel
from penstock.domain.fleet.table import Route, Share, VersionEntry, by_digest
from penstock.domain.ids import Alias, VersionId
from penstock.domain.money import dollars
from penstock.domain.serving.auto import Auto
from penstock.domain.serving.request import InferenceRequest
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.calls.call import unnoted
from penstock.gateway.calls.visible import shares_of
from penstock.gateway.routing.current import CurrentTable, View

MOST_LISTED = 10
_SPACE = 2.0**64


def nobody(_: VersionId) -> bool:
    return False


class TableResolver:
    def __init__(self, table: CurrentTable, is_shut: Callable[[VersionId], bool] = nobody) -> None:
        self._table = table
        self._is_shut = is_shut

    def resolve(
        self, request: InferenceRequest, principal: Principal, note: Callable[[VersionId], None] = unnoted
    ) -> VersionEntry:
        view = self._table.view
        route = view.routes.get(request.model)
        version = _pinned(view, request, principal) if route is None else _led(view, route, request, principal)
        name = request.model if route is not None or version is None else version.id
        if version is None or not principal.may_use(name):
            raise _unknown(request.model, view, principal)  # the same words: nobody finds others' models by asking
        if version.task not in request.api.tasks:
            raise UnsupportedByModel(f"{name!r} does not answer {request.api.value}", param="model")
        if route is not None and route.fallback and version.id != route.fallback and self._is_away(view, version):
            version = self._instead(view, route, version, request, principal, note)
        if request.price_cap and _dearest(version, principal) > request.price_cap:
            raise _too_dear(version, request, principal)
        return version

    def auto(self, name: str, principal: Principal) -> Auto | None:
        return ruled(self._table.view, name, principal)

    def _instead(
        self,
        view: View,
        route: Route,
        version: VersionEntry,
        request: InferenceRequest,
        principal: Principal,
        note: Callable[[VersionId], None],
    ) -> VersionEntry:
        """Return the fallback if it can take the request, else the version, which refuses with its own reason."""
        other = view.versions[route.fallback]
        is_there = principal.sees(other.tenants) and other.task in request.api.tasks
        if not is_there or self._is_away(view, other):
            return version
        note(version.id)
        return other

    def _is_away(self, view: View, version: VersionEntry) -> bool:
        is_shut = self._is_shut(version.id) or (bool(version.base) and self._is_shut(version.base))
        return is_shut or not view.rosters[version.id].serving


def reachable(view: View, principal: Principal, name: str = "") -> frozenset[VersionId]:
    if name not in view.routes and (version := by_digest(view.table.versions, name)) is not None:
        name = version.id
    if (auto := view.autos.get(name)) is not None and principal.may_use(name):
        return frozenset[VersionId]().union(*(reachable(view, principal, rule.to) for rule in auto.rules))
    routes = [route for alias, route in view.routes.items() if name in ("", alias) and principal.may_use(alias)]
    pinned = [one.id for version, one in view.versions.items() if name in ("", version) and principal.may_use(version)]
    shares = (share for route in routes for share in shares_of(route, view.versions, principal))
    return frozenset({share.version for share in shares}.union(one for one in pinned if is_seen(view, principal, one)))


def is_seen(view: View, principal: Principal, name: str) -> bool:
    """True if a rule's target exists for this caller, whatever its key's scope."""
    route = view.routes.get(name)
    if route is not None:
        return bool(shares_of(route, view.versions, principal))
    version = view.versions.get(name)
    return version is not None and principal.sees(version.tenants)


def ruled(view: View, name: str, principal: Principal) -> Auto | None:
    """Leave out rules to targets hidden from this caller; None if no rule is left."""
    auto = view.autos.get(name)
    if auto is None or not view.has_owners:
        return auto
    rules = tuple(rule for rule in auto.rules if is_seen(view, principal, rule.to))
    return auto.only(rules) if rules else None


def _pinned(view: View, request: InferenceRequest, principal: Principal) -> VersionEntry | None:
    version = view.versions.get(request.model) or by_digest(view.table.versions, request.model)
    return version if version is not None and principal.sees(version.tenants) else None


def _led(view: View, route: Route, request: InferenceRequest, principal: Principal) -> VersionEntry | None:
    """Other tenants' versions are left out before hashing, which does not change the order of the rest."""
    if route.alias not in view.owned:
        return view.versions[_chosen(view, route, request, principal)]
    versions = view.versions
    own = view.overrides[route.alias].get(principal.tenant) if route.overrides else None
    if own is not None and principal.sees(versions[own].tenants):
        return versions[own]
    left = [one for one in route.shares if one.weight > 0 and principal.sees(versions[one.version].tenants)]
    if len(left) <= 1:
        return versions[left[0].version] if left else None
    return versions[_best(route.alias, left, sticky_key(request, principal))]


def _chosen(view: View, route: Route, request: InferenceRequest, principal: Principal) -> VersionId:
    if route.overrides and (own := view.overrides[route.alias].get(principal.tenant)) is not None:
        return own
    if len(route.shares) == 1:
        return route.shares[0].version
    return choose(route, sticky_key(request, principal))


def sticky_key(request: InferenceRequest, principal: Principal) -> str:
    """Session, user or tenant. A tenant's id has no control characters: the first ends it, so keys of two tenants are
    never equal.
    """
    if request.session:
        return f"{principal.tenant}\x1e{request.session}"
    user = request.body.get("user")
    return f"{principal.tenant}\x1f{user}" if isinstance(user, str) and user else principal.tenant


def choose(route: Route, key: str) -> VersionId:
    if len(route.shares) == 1:
        return route.shares[0].version
    return _best(route.alias, route.shares, key)


def _best(alias: Alias, shares: Sequence[Share], key: str) -> VersionId:
    return max(shares, key=lambda share: _score(alias, share, key)).version


def _score(alias: Alias, share: Share, key: str) -> float:
    if share.weight <= 0:
        return -1.0
    digest = blake2b(f"{alias}\x1f{share.version}\x1f{key}".encode(), digest_size=8).digest()
    unit = (int.from_bytes(digest, "big") + 0.5) / _SPACE
    return -share.weight / math.log(unit)


def _dearest(version: VersionEntry, principal: Principal) -> int:
    return version.price.at(principal.tier.price_factor).dearest


def _too_dear(version: VersionEntry, request: InferenceRequest, principal: Principal) -> TooDear:
    costs, cap = dollars(_dearest(version, principal)), dollars(request.price_cap)
    return TooDear(
        f"{version.id} costs up to {costs} for a million tokens, and the request's cap is {cap}", param="model"
    )


def _unknown(name: str, view: View, principal: Principal) -> UnknownModel:
    """List, for an exact version, the versions that this key may name."""
    model, pins, _ = name.partition("@")
    others = [
        name
        for name, version in (view.versions.items() if pins else ())
        if name.startswith(f"{model}@") and principal.may_use(name) and principal.sees(version.tenants)
    ]
    told = f"; versions of {model}: {', '.join(sorted(others)[:MOST_LISTED])}" if others else ""
    return UnknownModel(f"the model {name[:80]!r} does not exist, or this key may not see it{told}", param="model")
