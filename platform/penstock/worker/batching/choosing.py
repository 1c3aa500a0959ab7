"""Orders waiting items, and selects a batch if not all can meet their deadlines. Of a few batch sizes it takes the
one with which most items meet theirs, those of later batches included.

Items that can't meet their deadline are refused at once.

Trade-off: it looks a few batches ahead at eight sizes, not at all 2^n partitions.
"""

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import NamedTuple

from penstock.domain.ids import TenantId
from penstock.worker.batching.items import Waiting

_SIZES = 8
_AHEAD = 3
"""Batches that the choice looks ahead."""

Seconds = Callable[[int], float]
"""Seconds of compute by batch size."""


class Room(NamedTuple):
    items: int
    interactive: int
    offline: int


class ChosenItems(NamedTuple):
    taken: Sequence[Waiting]
    late: Sequence[Waiting]
    in_time: int


def in_turn(waiting: Iterable[Waiting], compute_s: float, windows: Sequence[float]) -> list[Waiting]:
    """Order by latest start; ``windows`` are the classes' longest waits.

    An urgent item never overtakes an older one of its tenant and class: the older one is moved forward instead.
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
    turn: Sequence[Waiting],
    virtual_time: Callable[[TenantId], float],
    each_s: float,
    spare: Callable[[Waiting], bool],
) -> Sequence[Waiting]:
    """Order by virtual time, which grows by ``each_s`` per item.

    The order within each tenant is kept; spare items come last.
    """
    next_at: dict[TenantId, float] = {}
    places: dict[Waiting, float] = {}
    for one in turn:
        tenant = one.item.tenant
        at = next_at[tenant] if tenant in next_at else virtual_time(tenant)
        places[one] = inf if spare(one) else at
        next_at[tenant] = at if spare(one) else at + each_s / one.item.weight
    return turn if len(next_at) == 1 else sorted(turn, key=places.__getitem__)


def choose(turn: Sequence[Waiting], room: Room, now: float, seconds: Seconds) -> ChosenItems:
    """Keep the given order.

    If no item can meet its deadline, a full batch is taken: the estimate may be wrong, and only a batch can tell.
    """
    most, _ = _split(turn, room)
    if len(most) == len(turn) and _are_in_time(turn, now + seconds(len(turn))):
        return ChosenItems(turn, (), len(turn))
    best = ChosenItems(most, (), 0)
    many = len(most)
    for size in sorted({many - many * i // _SIZES for i in range(_SIZES)}, reverse=True):
        end = now + seconds(size)
        first, rest = _split([one for one in turn if one.deadline_at >= end], room._replace(items=size))
        found = len(first) + count_in_time(rest, room, end, seconds)
        if first and found > best.in_time:
            best = ChosenItems(first, [one for one in turn if one.deadline_at < end], found)
    return best


def count_in_time(turn: Sequence[Waiting], room: Room, now: float, seconds: Seconds) -> int:
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
    batch, rest, left = list[Waiting](), list[Waiting](), [room.interactive, room.offline]
    for one in turn:
        if len(batch) < room.items and left[one.is_offline]:
            left[one.is_offline] -= 1
            batch.append(one)
        else:
            rest.append(one)
    return batch, rest
