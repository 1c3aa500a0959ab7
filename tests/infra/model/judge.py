"""Everything that would not work in a fleet, one sentence a fault: the pack's rules, the walks, the contract, IAM."""

from collections.abc import Callable, Iterator
from functools import cache, lru_cache, partial

from infra.config.kinds import StackKind
from infra.config.model import Fleet
from infra.graph.captured import Capture
from infra.policy.invariant import Invariant
from infra.policy.registry import INVARIANTS
from infra.policy.view import View, build
from tests.infra import seam
from tests.infra.access.cases import cases, verdict
from tests.infra.access.world import World as Account
from tests.infra.model import fleet as fleets
from tests.infra.model import money, nodes, places, reach, request, serving, signals
from tests.infra.model.world import AbsentError, World
from tests.infra.provider import as_stored

Walk = Callable[[World], Iterator[str]]
WALKS: tuple[Walk, ...] = (
    request.request,
    reach.network,
    nodes.nodes,
    places.places,
    serving.scaling,
    serving.secrets,
    serving.trust,
    serving.rights,
    serving.images,
    serving.key_addresses,
    signals.alarms,
    signals.people,
    signals.selected,
    signals.events,
    money.money,
    money.drills,
    money.stores,
)
Captures = tuple[Capture, ...]


def faults(fleet: Fleet, captures: Captures) -> Iterator[str]:
    """Yield every fault of the fleet; nothing if it works. What did not change is not judged again."""
    for one in captures:
        yield from ruled(Held(fleet, (one,)))
    for region in fleet.environment.regions:
        yield from (f"{region}: {fault}" for fault in walked(Held(fleet, captures), region))
    yield from ending("fleet", lambda: joint(fleet, captures))
    documents = tuple(one for one in captures if one.kind in (StackKind.GLOBAL, StackKind.REGION, StackKind.MESH))
    yield from accessed(Held(fleet, documents))


class Held:
    """Captures as a key."""

    def __init__(self, fleet: Fleet, captures: Captures) -> None:
        self.fleet, self.captures = fleet, captures
        self._key = tuple(id(one.graph) for one in captures)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held) and other._key == self._key


@cache
def ruled(held: Held) -> tuple[str, ...]:
    """What breaks a rule of the pack, over what was written and what the provider gives back."""
    (item,) = held.captures
    views = {
        written: build(held.fleet, item.kind, item.region, item.graph if written else as_stored(item.graph))
        for written in (True, False)
    }
    return tuple(
        fault for rule in INVARIANTS for fault in ending(rule.id, partial(broken, rule, views[rule.as_written]))
    )


def broken(rule: Invariant, view: View) -> Iterator[str]:
    return (f"{node.name if node else ''}: {told}" for node, told in rule.breaches(view))


@lru_cache(maxsize=16)
def walked(held: Held, region: str) -> tuple[str, ...]:
    """What no walk of the region gets past, and what its manifests and the contract disagree on."""
    world = World(fleet=held.fleet, region=region, captures=held.captures)
    found = [fault for walk in WALKS for fault in ending(walk.__name__, partial(walk, world))]
    mine = tuple(one for one in held.captures if one.region == region)
    return (*found, *ending("contract", lambda: seam.faults(mine)))


def joint(fleet: Fleet, captures: Captures) -> Iterator[str]:
    """What stacks read of each other, and accounts of roles."""
    yield from fleets.contract(captures)
    yield from fleets.accounts(captures)
    yield from fleets.bounded(captures)
    yield from fleets.trusted(captures)
    yield from fleets.failover(captures, fleet) if len(fleet.regions) > 1 else ()
    yield from money.travelling(World(fleet=fleet, region=fleet.environment.primary, captures=captures))


def ending(name: str, walk: Callable[[], Iterator[str]]) -> Iterator[str]:
    """A walk's faults; one that can't go on says what it lacked."""
    try:
        yield from (f"{name}: {fault}" for fault in walk())
    except AbsentError as lacking:
        yield f"{name}: there is no {lacking}"
    except (ValueError, LookupError, TypeError, AttributeError, StopIteration) as broken:
        yield f"{name}: can't be read: {broken!r}"


@lru_cache(maxsize=4)
def accessed(held: Held) -> tuple[str, ...]:
    """Each call that must be allowed and is not, or the other way about."""
    return tuple(
        f"access: {case}: {fault}"
        for region in held.fleet.environment.regions
        for account in [Account(environment=held.fleet.environment, captures=held.captures, region=region)]
        for case in cases()
        if case.region == region and (fault := verdict(account, case))
    )
