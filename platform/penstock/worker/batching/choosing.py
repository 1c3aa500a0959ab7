"""Whose turn it is, and who of those is computed at once where not all can be in time together. Pure.

Between tenants whoever has had least of the device is first, of one tenant whoever must start first, and of one class
whoever came first. A smaller batch ends sooner; a larger one does more in a second. Of a few sizes the one counts after
which most are in time, the batches of the rest included. Whoever can't be in time then is told so now, and costs the
others nothing.

Trade-off: looking a few batches ahead at eight sizes, and not at all partitions of what waits, of which there are 2^n.
"""

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import NamedTuple

from penstock.domain.ids import TenantId
from penstock.worker.batching.items import Waiting

_SIZES = 8
_AHEAD = 3
"""So many further batches are looked at."""

Seconds = Callable[[int], float]
"""How long a batch of a size takes."""


class Room(NamedTuple):
    """How many items a batch may have, of all and of each class."""

    items: int
    interactive: int
    offline: int


class Chosen(NamedTuple):
    """Who is computed, who is late for good, and how many of all are in time if it goes on like this."""

    taken: Sequence[Waiting]
    late: Sequence[Waiting]
    in_time: int


def in_turn(waiting: Iterable[Waiting], compute_s: float, windows: Sequence[float]) -> list[Waiting]:
    """Return who must start first before the others; ``windows`` are how long the classes may wait.

    Who waits behind an item of its own tenant and class pulls that one forward, and does not pass it.
    """
    behind: dict[tuple[TenantId, bool], float] = {}
    due: dict[Waiting, float] = {}
    ordered = list(waiting)
    for one in reversed(ordered):
        flow = (one.item.tenant, one.is_offline)
        at = min(one.deadline_at - compute_s, one.came_at + windows[one.is_offline], behind.get(flow, inf))
        due[one] = behind[flow] = at
    return sorted(ordered, key=due.__getitem__)


def in_fair_turn(
    turn: Sequence[Waiting], had: Callable[[TenantId], float], each_s: float, spare: Callable[[Waiting], bool]
) -> Sequence[Waiting]:
    """Return those in turn so that tenants alternate by what each has had, with so many seconds for each item more.

    Of one tenant they stay as they are. Spare ones fill what the others leave.
    """
    next_at: dict[TenantId, float] = {}
    places: dict[Waiting, float] = {}
    for one in turn:
        tenant = one.item.tenant
        at = next_at[tenant] if tenant in next_at else had(tenant)
        places[one] = inf if spare(one) else at
        next_at[tenant] = at if spare(one) else at + each_s / one.item.weight
    return turn if len(next_at) == 1 else sorted(turn, key=places.__getitem__)


def choose(turn: Sequence[Waiting], room: Room, now: float, seconds: Seconds) -> Chosen:
    """Return whom of those in turn to compute now.

    Where nobody can be in time as many go as there is room for: the belief may be wrong, and only a batch can tell.
    """
    most, _ = _split(turn, room)
    if len(most) == len(turn) and _are_in_time(turn, now + seconds(len(turn))):
        return Chosen(turn, (), len(turn))
    best = Chosen(most, (), 0)
    many = len(most)
    for size in sorted({many - many * i // _SIZES for i in range(_SIZES)}, reverse=True):
        end = now + seconds(size)
        first, rest = _split([one for one in turn if one.deadline_at >= end], room._replace(items=size))
        found = len(first) + count_in_time(rest, room, end, seconds)
        if first and found > best.in_time:
            best = Chosen(first, [one for one in turn if one.deadline_at < end], found)
    return best


def count_in_time(turn: Sequence[Waiting], room: Room, now: float, seconds: Seconds) -> int:
    """Return how many of these are in time if they are computed in full batches from a second on, in turn."""
    found = 0
    for _ in range(_AHEAD):
        turn = [one for one in turn if one.deadline_at >= now + seconds(1)]
        if not turn:
            break
        batch, turn = _split(turn, room)
        now += seconds(len(batch))
        found += sum(one.deadline_at >= now for one in batch)
    return found


def _are_in_time(batch: Sequence[Waiting], end: float) -> bool:
    return all(one.deadline_at >= end for one in batch)


def _split(turn: Sequence[Waiting], room: Room) -> tuple[list[Waiting], list[Waiting]]:
    """Return who has room in a batch, and the rest."""
    batch, rest, left = list[Waiting](), list[Waiting](), [room.interactive, room.offline]
    for one in turn:
        if len(batch) < room.items and left[one.is_offline]:
            left[one.is_offline] -= 1
            batch.append(one)
        else:
            rest.append(one)
    return batch, rest
