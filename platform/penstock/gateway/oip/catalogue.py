"""Models that a caller may see, in the protocol's terms: names, versions, tensors, readiness. Pure.

A name is an alias or a model's own name; a version is the digest after the ``@`` of its id. A hidden model is answered
like an unknown one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.domain.errors import UnknownModel, UnsupportedByModel
from penstock.domain.fleet.table import RoutingTable, VersionEntry, by_digest
from penstock.domain.models.tensors import TensorSpec
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.calls.visible import shares_of
from penstock.gateway.oip import handled
from penstock.gateway.oip.forms import FORMS, Form

MAX_CHARS = 256
READY, UNAVAILABLE = "READY", "UNAVAILABLE"
Entries = dict[str, VersionEntry]


class Listed(NamedTuple):
    """``version`` is empty if callers can't choose it."""

    name: str
    entry: VersionEntry
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The pipeline resolves ``name``; ``version`` answers at present."""

    asked: str
    name: str
    version: VersionEntry

    @property
    def form(self) -> Form:
        return form_of(self.version)


def form_of(version: VersionEntry) -> Form:
    """Return a version's inputs and outputs; raises ``UnsupportedByModel``."""
    form = FORMS.get(version.task) if version.handler is None else handled.form_of(version.handler)
    if form is None:
        raise UnsupportedByModel(f"{version.id} is not offered over the Open Inference Protocol", param="model")
    return form


def digest_of(version_id: str) -> str:
    return version_id.partition("@")[2] or version_id


def find(table: RoutingTable, who: Principal, model: str, version: str = "") -> Found:
    found = _of_alias(table, who, model, version) or _pinned(table, who, f"{model}@{version}" if version else model)
    if found is None:
        if who.may_use(model) and _has_rules(table, who, model):
            raise UnsupportedByModel("auto aliases are not served over the Open Inference Protocol", param="model")
        name = f"{model} version {version}" if version else model
        raise UnknownModel(f"the model {name[:80]!r} does not exist, or this key may not see it", param="model")
    return Found(asked=model, name=found[0], version=found[1])


def _of_alias(table: RoutingTable, who: Principal, model: str, version: str) -> tuple[str, VersionEntry] | None:
    route = next((route for route in table.routes if route.alias == model), None)
    if route is None or not who.may_use(model):
        return None
    named = {share.version for share in route.shares}
    entries: Entries = {entry.id: entry for entry in table.versions if entry.id in named}
    shares = shares_of(route, entries, who)
    if not shares:
        return None
    if not version:
        return model, entries[max(shares, key=lambda share: share.weight).version]
    theirs = [one for one in named if who.sees(entries[one].tenants)]
    meant = [one for one in theirs if digest_of(one).startswith(version)]
    if len(meant) != 1:
        return None
    if who.may_use(meant[0]):
        return meant[0], entries[meant[0]]
    return (model, entries[meant[0]]) if len(theirs) == 1 else None


def _has_rules(table: RoutingTable, who: Principal, name: str) -> bool:
    rules = next((auto.rules for auto in table.autos if auto.alias == name), ())
    entries: Entries = {entry.id: entry for entry in table.versions}
    led = {str(rule.to) for rule in rules}
    is_there = any(who.sees(entry.tenants) for version, entry in entries.items() if version in led)
    return is_there or any(shares_of(route, entries, who) for route in table.routes if route.alias in led)


def _pinned(table: RoutingTable, who: Principal, name: str) -> tuple[str, VersionEntry] | None:
    entry = next((entry for entry in table.versions if entry.id == name), None) or by_digest(table.versions, name)
    is_there = entry is not None and who.may_use(entry.id) and who.sees(entry.tenants)
    return (entry.id, entry) if entry is not None and is_there else None


def listed(table: RoutingTable, who: Principal) -> Iterator[Listed]:
    """Aliases first. A key with access only to an alias may not choose among its versions."""
    entries: Entries = {entry.id: entry for entry in table.versions if who.sees(entry.tenants)}
    known: Entries = {entry.id: entry for entry in table.versions}
    found: dict[tuple[str, str], Listed] = {}
    for route in table.routes:
        if not who.may_use(route.alias) or not (shares := shares_of(route, known, who)):
            continue
        theirs = [entries[share.version] for share in route.shares if share.version in entries]
        named = [one for one in theirs if len(theirs) == 1 or who.may_use(one.id)]
        main = known[max(shares, key=lambda share: share.weight).version]
        for one in [(entry, digest_of(entry.id)) for entry in named] or [(main, "")]:
            found[route.alias, one[1]] = Listed(route.alias, *one)
    for entry in entries.values():
        name = entry.id.partition("@")[0]
        if who.may_use(entry.id):
            found[name, digest_of(entry.id)] = Listed(name, entry, digest_of(entry.id))
    yield from found.values()


def is_ready(version: VersionEntry) -> bool:
    return any(worker.state.serves for worker in version.workers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    ways: str = ""
    """The inputs of a request, in words, if the version describes them."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Descriptions of tensors by name."""


def metadata(table: RoutingTable, who: Principal, model: str, version: str = "") -> Metadata:
    found = find(table, who, model, version)
    named = [one.version for one in listed(table, who) if one.name == model] or [digest_of(found.version.id)]
    form, handler = found.form, found.version.handler
    return Metadata(
        name=model,
        versions=(digest_of(found.version.id),) if version else tuple(one for one in named if one),
        platform=f"penstock_{found.version.task}",
        inputs=form.inputs,
        outputs=form.outputs,
        ways=handled.ways(handler) if handler is not None else "",
        notes=dict(handler.notes) if handler is not None else {},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed:
    name: str
    version: str
    state: str
    reason: str = ""


def index(table: RoutingTable, who: Principal, *, only_ready: bool = False) -> tuple[Indexed, ...]:
    lines = [_indexed(one) for one in listed(table, who)]
    return tuple(line for line in lines if not only_ready or line.state == READY)


def _indexed(one: Listed) -> Indexed:
    if is_ready(one.entry):
        return Indexed(name=one.name, version=one.version, state=READY)
    reason = "starting" if one.entry.workers else "no worker"
    return Indexed(name=one.name, version=one.version, state=UNAVAILABLE, reason=reason)
