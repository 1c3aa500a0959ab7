"""The adapters in the engine's batch: it has slots for a few at once. Pure.

If all slots run requests, vLLM admits no other adapter: a third one beside two busy ones would wait forever. Here an
adapter keeps its slot until another has waited ``BOUND_S``; then the slot closes and is reassigned after its running
requests. Of ``n`` adapters for ``s`` slots, each is served after ``n / s`` times ``BOUND_S`` plus the longest answer in
a closing slot.

Trade-off: a longer bound swaps less, but other adapters wait longer.
"""

from dataclasses import dataclass

from penstock.domain.ids import NO_VERSION, VersionId
from penstock.worker.gate.queueing.constants import BOUND_S
from penstock.worker.gate.queueing.residents import Residents


@dataclass(slots=True)
class _Slot:
    since: float
    running: int = 0
    goes_to: VersionId = NO_VERSION
    """The next adapter of the slot once nothing runs in it; until then the slot takes no requests."""


class AdapterSlots:
    """Polled by the queue, in its seconds."""

    def __init__(self, size: int, residents: Residents) -> None:
        self.size, self.residents = size, residents
        self.swaps = 0
        self.look_at: float | None = None
        """When to ask again though nothing has happened; None where nobody waits for a moment."""
        self._slots: dict[VersionId, _Slot] = {}
        self._promised: dict[VersionId, VersionId] = {}

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def busy(self) -> frozenset[VersionId]:
        return frozenset(name for name, slot in self._slots.items() if slot.running)

    def holds(self, adapter: VersionId) -> bool:
        return adapter in self._slots

    def since(self, adapter: VersionId, now: float) -> float:
        """Return the time of the adapter's slot; ``now`` if it has none, or a closing one."""
        slot = self._slots.get(adapter)
        return slot.since if slot is not None and not slot.goes_to else now

    def running(self, adapter: VersionId) -> int:
        slot = self._slots.get(adapter)
        return slot.running if slot is not None else 0

    def is_open(self, adapter: VersionId) -> bool:
        """True if no swap is needed, and for requests without an adapter."""
        if not adapter:
            return True
        slot = self._slots.get(adapter)
        return slot is not None and not slot.goes_to and self.residents.has(adapter)

    def ask(self, adapter: VersionId, now: float, *, checks: bool = False) -> bool:
        """Close another adapter's slot if this one has waited its bound.

        ``checks``: the request tests the adapter, and may enter before it is ready.
        """
        if not (self.residents.holds(adapter) if checks else self.residents.has(adapter)):
            return False
        slot = self._slots.get(adapter)
        if slot is not None:
            return not slot.goes_to
        if len(self._slots) < self.size or self._replaceable(adapter, now) is not None:
            return True
        return adapter not in self._promised and self._promise(adapter, now)

    def enter(self, adapter: VersionId, now: float) -> None:
        slot = self._slots.get(adapter)
        if slot is None:
            gives_way = self._replaceable(adapter, now) if len(self._slots) >= self.size else None
            if gives_way is not None:
                del self._slots[gives_way]
            self._promised.pop(adapter, None)
            slot = self._slots[adapter] = _Slot(now)
            self.swaps += 1
        slot.running += 1
        self.residents.uses.use(adapter, now)

    def leave(self, adapter: VersionId) -> None:
        """An abandoned check may end after its adapter was dropped."""
        slot = self._slots.get(adapter)
        if slot is not None and slot.running:
            slot.running -= 1

    def gave_up(self, adapter: VersionId) -> None:
        promised = self._promised.pop(adapter, None)
        if promised is not None:
            self._slots[promised].goes_to = NO_VERSION

    def drop(self, adapter: VersionId) -> None:
        slot = self._slots.pop(adapter, None)
        if slot is not None and slot.goes_to:
            del self._promised[slot.goes_to]
        self.gave_up(adapter)

    def wait_s(self, adapter: VersionId, now: float, stay_s: float) -> float:
        if not adapter or self.is_open(adapter):
            return 0.0
        if not self.residents.has(adapter):
            return self.residents.wait_s(adapter, now)
        if len(self._slots) < self.size or self._replaceable(adapter, now) is not None:
            return 0.0
        return max(0.0, self._due_at(adapter, now) - now) + stay_s

    def _replaceable(self, adapter: VersionId, now: float) -> VersionId | None:
        promised = self._promised.get(adapter)
        if promised is not None:
            return promised if not self._slots[promised].running else None
        free = (name for name, slot in self._slots.items() if not slot.running and self._may_go(name, slot, now))
        return self.residents.uses.least(free, now)

    def _may_go(self, name: VersionId, slot: _Slot, now: float) -> bool:
        if slot.goes_to:
            return False
        return now - slot.since >= BOUND_S / 2 or not self.residents.waits(name)

    def _promise(self, adapter: VersionId, now: float) -> bool:
        """Close the least used slot, unless it is the last open one, for an adapter that has waited its bound; tell
        whether it is free already.
        """
        due_at = self._due_at(adapter, now)
        if now < due_at:
            self._look(due_at)
            return False
        open_ones = {name: slot for name, slot in self._slots.items() if not slot.goes_to}
        if len(open_ones) <= min(1, self.size - 1):
            return False
        old = [name for name, slot in open_ones.items() if now - slot.since >= BOUND_S / 2]
        gives_way = self.residents.uses.least(old, now)
        if gives_way is None:
            self._look(min(slot.since for slot in open_ones.values()) + BOUND_S / 2)
            return False
        self._slots[gives_way].goes_to = adapter
        self._promised[adapter] = gives_way
        self.residents.waits_from(gives_way, now)
        return not self._slots[gives_way].running

    def _due_at(self, adapter: VersionId, now: float) -> float:
        since = self.residents.waits_since(adapter)
        return (now if since is None else since) + BOUND_S

    def _look(self, at: float) -> None:
        self.look_at = at if self.look_at is None else min(self.look_at, at)
