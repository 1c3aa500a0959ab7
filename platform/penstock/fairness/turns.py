"""Start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM'96): the flow served least for its weight is next.

A flow's virtual time is its received service divided by its weight; the system's is that of the flow in service. An
idle flow resumes at the system's virtual time, so idling earns no credit. While two flows are backlogged, their service
by weight differs by at most one request of each.
"""

from collections.abc import Hashable
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

F = TypeVar("F", bound=Hashable)
T = TypeVar("T")


class VirtualTimes(Generic[F]):
    """The virtual time of each flow. Costs are in any unit; callers divide them by the flow's weight."""

    __slots__ = ("_times", "now")

    def __init__(self) -> None:
        self.now = 0.0
        """The system's virtual time."""
        self._times: dict[F, float] = {}

    def of(self, flow: F) -> float:
        return self._times.get(flow, self.now)

    def resume(self, flow: F) -> float:
        """Return the virtual time at which a flow's next request starts: no earlier than the system's."""
        start = self._times[flow] = max(self.now, self.of(flow))
        return start

    def charge(self, flow: F, cost: float) -> None:
        """Add the cost of a request, or a correction of it, divided by the flow's weight."""
        self._times[flow] = self.of(flow) + cost

    def serve(self, start: float) -> None:
        self.now = max(self.now, start)

    def forget(self, flow: F) -> None:
        self._times.pop(flow, None)

    def forget_idle(self) -> None:
        """Drop the flows that are not ahead of the system's virtual time; only while no request waits."""
        self._times = {flow: at for flow, at in self._times.items() if at > self.now}

    def clear(self) -> None:
        """Reset all virtual times to zero; only while no request waits or runs."""
        self._times.clear()
        self.now = 0.0


class FairTurns(Generic[T]):
    """Items waiting by flow, taken in fair order."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, T]] = []
        self._times: VirtualTimes[str] = VirtualTimes()
        self._order = count()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, flow: str, cost: float, item: T) -> None:
        heappush(self._waiting, (self._times.resume(flow), next(self._order), item))
        self._times.charge(flow, cost)

    def take(self) -> T:
        """Return the next item; at least one must be waiting."""
        start, _, item = heappop(self._waiting)
        self._times.serve(start)
        if not self._waiting:
            self._times.forget_idle()
        return item
