"""Decides the start and the items of each batch. Pure: from waiting items and the device's state to a decision and
the time of the next one.

A batch starts when it is full (items, tokens or seconds), when its earliest deadline would be missed otherwise, when
its oldest item has waited the maximum, or at once if the device is idle and no arrival is expected soon. The longest
wait is the rest of the SLO: ``W = SLO - p99 of compute - margin``.

Trade-off: the choice is greedy, and small batches lose throughput while one tenant floods beside others.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import NamedTuple

from penstock.domain.serving.report import Trigger
from penstock.worker.batching.choosing import ChosenItems, Room, choose, count_in_time, in_fair_turn, in_turn
from penstock.worker.batching.compute import Computes
from penstock.worker.batching.group import Group
from penstock.worker.batching.items import Key, Waiting
from penstock.worker.batching.settings import BatchSettings
from penstock.worker.batching.tenants import Tenants

ALONE_PART = 0.5
BESIDE_PART = 0.125
"""The part of the SLO's seconds that one batch may take, and a tenant's items in a shared batch."""
SINGLE = 1.5
"""A batch may always take this multiple of a single item's compute time."""


def most_items(settings: BatchSettings, computes: Computes, group: Group, most: int, *, are_several: bool) -> int:
    key = group.key
    if not settings.slo_s or most == 1:
        return most
    if not computes.is_measured(key):
        return 1
    single_s = SINGLE * computes.p50(key, 1)
    alone_s = max(ALONE_PART * settings.slo_s, single_s)
    if not are_several:
        return computes.most_within(key, alone_s, most)
    each = computes.most_within(key, max(BESIDE_PART * settings.slo_s, single_s), most)
    if each == 1 or each >= min(most, len(group)):  # what gains nothing by company gains nothing by others' either
        return each
    together = sum(min(each, waiting) for waiting in group.counts())
    return min(together, computes.most_within(key, alone_s, most))


MOST_GROUPS = 256
"""Keys without waiting items whose arrivals are remembered."""


class DeviceState(NamedTuple):
    running: int
    since: float
    free_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    key: Key
    trigger: Trigger
    taken: tuple[Waiting, ...]
    late: tuple[Waiting, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDecision:
    batch: Batch | None = None
    look_at: float = inf


class _Ready(NamedTuple):
    group: Group
    room: Room
    trigger: Trigger | None
    due_at: float
    again_at: float


class Policy:
    def __init__(self, settings: BatchSettings, computes: Computes) -> None:
        self._settings, self._computes = settings, computes
        self._groups: OrderedDict[Key, Group] = OrderedDict()
        self._busy: dict[Key, Group] = {}
        self._tenants = Tenants()
        self.most_items = settings.max_items
        """Lowered by its owner while the device has no memory for more."""

    def __len__(self) -> int:
        return sum(len(group) for group in self._busy.values())

    def come(self, waiting: Waiting) -> None:
        key = waiting.item.key
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key)
            self._forget()
        self._busy[key] = group
        group.come(waiting)
        self._tenants.came(waiting.item.tenant, waiting.came_at)

    def leave(self, waiting: Waiting) -> bool:
        group = self._busy.get(waiting.item.key)
        if group is None or not group.withdraw(waiting):
            return False
        if not group:
            del self._busy[group.key]
        return True

    def expire(self, now: float) -> list[Waiting]:
        gone = [
            one for group in self._busy.values() if group.earliest <= now for one in group if one.deadline_at <= now
        ]
        for one in gone:
            self._leave(one.item.key, one)
        return gone

    def clear(self) -> list[Waiting]:
        gone = [one for group in self._busy.values() for one in group]
        self._busy.clear()
        self._groups.clear()
        return gone

    def window_s(self, key: Key, size: int, *, offline: bool = False) -> float:
        """The SLO minus compute time, or the class's maximum."""
        settings = self._settings
        cap_s = settings.caps(offline=offline).max_wait_s
        if offline or not settings.slo_s:
            return cap_s
        return min(cap_s, max(0.0, settings.slo_s - self._computes.p99(key, size) - settings.margin_s))

    def decide(self, now: float, device: DeviceState) -> BatchDecision:
        if device.running >= self._settings.in_flight:
            return BatchDecision(look_at=min((group.earliest for group in self._busy.values()), default=inf))
        ready, look_at = list[_Ready](), inf
        for group in self._busy.values():
            found = self._ready(group, now, device)
            look_at = min(look_at, found.again_at)
            if found.trigger is not None:
                ready.append(found)
        if not ready:
            return BatchDecision(look_at=look_at)
        first = ready[0] if len(ready) == 1 else self._first(ready, now)
        return BatchDecision(batch=self._take(first, now))

    # -- when ------------------------------------------------------------------------------

    def _ready(self, group: Group, now: float, device: DeviceState) -> _Ready:
        room, full = self._room(group, now)
        size = _size(group, room)
        slack_at = group.earliest - self._computes.p99(group.key, size) - self._settings.margin_s
        wait_at = self._waited_at(group, size)
        due_at = min(slack_at, wait_at)
        if size >= room.items or self._is_class_full(group):
            return _Ready(group, room, full, due_at, now)
        idle_at = self._idle_at(group, size, now, device)
        first = min((slack_at, Trigger.DEADLINE), (wait_at, Trigger.WAIT), (idle_at, Trigger.IDLE))
        return _Ready(group, room, first[1] if first[0] <= now else None, due_at, first[0])

    def _first(self, ready: Sequence[_Ready], now: float) -> _Ready:
        """The tenant with the least virtual time; its group with the batch that meets most deadlines."""
        places = [min((self._place(one, now) for one in each.group), default=inf) for each in ready]
        least = min(places)
        of_least = [each for each, place in zip(ready, places, strict=True) if place == least]
        return max(of_least, key=lambda one: (self._saved(one, now), -one.due_at))

    def _place(self, waiting: Waiting, now: float) -> float:
        return inf if self._is_spare(waiting, now) else self._tenants.virtual_time(waiting.item.tenant)

    def _is_spare(self, waiting: Waiting, now: float) -> bool:
        return waiting.is_offline and waiting.came_at + self._settings.offline.max_wait_s > now

    def _saved(self, ready: _Ready, now: float) -> int:
        taken = self._chosen(ready.group, ready.room, now)
        after = now + self._computes.p50(ready.group.key, len(taken.taken))
        others = (group for group in self._busy.values() if group is not ready.group)
        return taken.in_time + sum(self._in_time(group, after) for group in others)

    def _in_time(self, group: Group, now: float) -> int:
        if group.earliest == inf:
            return len(group)
        room, seconds = self._room(group, now)[0], partial(self._computes.p50, group.key)
        return count_in_time(self._in_turn(group, _size(group, room)), room, now, seconds)

    def _waited_at(self, group: Group, size: int) -> float:
        oldest = ((group.oldest(offline=offline), offline) for offline in (False, True))
        return min(one.came_at + self.window_s(group.key, size, offline=of) for one, of in oldest if one is not None)

    def _idle_at(self, group: Group, size: int, now: float, device: DeviceState) -> float:
        """Return the time after which waiting for one more item gains nothing."""
        if device.running:
            return device.free_at - self._settings.ahead_s if self._settings.in_flight > device.running else inf
        next_s = group.next_in_s(now)
        gain_s = self.gain_s(group.key, size, next_s)
        if len(self._busy) > 1 or next_s >= gain_s:
            return -inf
        return max(device.since, group.last_came) + gain_s

    def gain_s(self, key: Key, size: int, next_s: float) -> float:
        """The longest worthwhile wait for one more item, with an arrival every ``next_s``.

        Started now, a batch of n leaves the next item to the following batch. If batches of n keep up with arrivals,
        the sum of response times decides, and the following batch counts as n + 1. If not, a queue grows and the
        following batch's device seconds are lost.
        """
        seconds = partial(self._computes.p50, key)
        own_s = seconds(1) if seconds(size) > size * next_s else seconds(1) / (size + 1)
        return seconds(size) + own_s - seconds(size + 1)

    # -- who -------------------------------------------------------------------------------

    def _room(self, group: Group, now: float) -> tuple[Room, Trigger]:
        settings, most, full = self._settings, self.most_items, Trigger.SIZE
        cost = group.key.bucket or group.longest
        if settings.max_cost and cost and settings.max_cost // cost < most:
            most, full = max(1, settings.max_cost // cost), Trigger.BUDGET
        within = most_items(settings, self._computes, group, most, are_several=self._tenants.are_several(now))
        if within < most:
            most, full = within, Trigger.BUDGET
        classes = [min(most, settings.caps(offline=offline).max_items or most) for offline in (False, True)]
        return Room(most, *classes), full

    def _is_class_full(self, group: Group) -> bool:
        most = self._settings.interactive.max_items
        if most and len(group.interactive) >= most and not group.offline:
            return True
        most = self._settings.offline.max_items
        return bool(most) and not group.interactive and len(group.offline) >= most

    def _take(self, ready: _Ready, now: float) -> Batch:
        group = ready.group
        chosen = self._chosen(group, ready.room, now)
        self._leave(group.key, *chosen.taken, *chosen.late)
        if chosen.taken:
            self._tenants.charge(chosen.taken, self._computes.p50(group.key, len(chosen.taken)) / len(chosen.taken))
        trigger = ready.trigger or Trigger.IDLE
        return Batch(key=group.key, trigger=trigger, taken=tuple(chosen.taken), late=tuple(chosen.late))

    def _chosen(self, group: Group, room: Room, now: float) -> ChosenItems:
        key, size = group.key, _size(group, room)
        seconds = partial(self._computes.p50, key)
        if size == len(group) and group.earliest >= now + seconds(size):
            return ChosenItems(tuple(group), (), size)
        turn = in_fair_turn(
            self._in_turn(group, size),
            self._tenants.virtual_time,
            seconds(size) / size,
            partial(self._is_spare, now=now),
        )
        if self._computes.is_measured(key):
            return choose(turn, room, now, seconds)
        return choose(turn, room, -inf, seconds)

    def _in_turn(self, group: Group, size: int) -> list[Waiting]:
        windows = [self.window_s(group.key, size, offline=offline) for offline in (False, True)]
        return in_turn(group, self._computes.p99(group.key, size) + self._settings.margin_s, windows)

    def _leave(self, key: Key, *gone: Waiting) -> None:
        group = self._busy.get(key)
        if group is not None:
            group.leave(*gone)
            if not group:
                del self._busy[key]

    def _forget(self) -> None:
        if len(self._groups) > MOST_GROUPS:
            idle = next((key for key in self._groups if key not in self._busy), None)
            if idle is not None:
                del self._groups[idle]


def _size(group: Group, room: Room) -> int:
    return min(room.items, min(len(group.interactive), room.interactive) + min(len(group.offline), room.offline))
