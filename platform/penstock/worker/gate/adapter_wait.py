"""What a request waits for at the door on behalf of its adapter: a load, or a slot; the rest of its wait is a queue.

It is judged when the request comes: whose adapter is in memory and may enter without a swap waits for nothing of it,
however long the queue is.
"""

from penstock.domain.serving.adapted import Adapted, Met
from penstock.worker.gate.admission.adapter_slots import AdapterSlots
from penstock.worker.gate.admission.cost import Work


class AdapterWait:
    """Of one request; times are the door's seconds."""

    __slots__ = ("_adapter", "_came_at", "_met", "_slots")

    def __init__(self, slots: AdapterSlots, work: Work, now: float) -> None:
        self._slots, self._adapter, self._came_at = slots, work.adapter, now
        if not slots.residents.has(work.adapter):
            self._met = Met.LOADED
        else:
            self._met = Met.QUEUED if slots.wait_s(work.adapter, now, 1.0) else Met.HIT

    def ended(self, now: float) -> Adapted:
        """Return how it fared until now, when it enters or gives up."""
        if self._met is Met.LOADED:
            waited_s = self._slots.residents.held_s(self._adapter, self._came_at, now)
        elif self._met is Met.QUEUED:
            waited_s = min(now, self._slots.since(self._adapter, now)) - self._came_at
        else:
            waited_s = 0.0
        return Adapted(met=self._met, waited_s=max(0.0, waited_s))
