"""One tenant's queue inside a level, and the level's longest queues.

The order by length is lazy: a flow's entry is added when it grows, and corrected when read, in O(log n).
"""

import heapq
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.domain.ids import RequestId, TenantId, VersionId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.constants import MOST_KNOWN
from penstock.worker.gate.queueing.work import Work

Place = tuple[float, int, int, TenantId]


@dataclass(slots=True)
class Flow:
    """``last`` is its last request's part of the virtual time, ``inside`` that of running ones; ``fresh`` its first
    request's cost until it is served again, ``noted`` its load as last recorded. ``share`` of the slots counts in
    requests like its own.
    """

    tenant: TenantId
    weight: float
    virtual: float = 0.0
    last: float = 0.0
    arrival: int = 0
    cost: float = 0.0
    fresh: float = 0.0
    share: float = 0.0
    running: int = 0
    slots: int = 0
    inside: float = 0.0
    charges: dict[RequestId, float] = field(default_factory=dict)
    bypassed: int = 0
    noted: float = 0.0
    queue: OrderedDict[RequestId, Work] = field(default_factory=OrderedDict)
    lines: dict[VersionId, OrderedDict[RequestId, int]] = field(default_factory=dict)
    """The requests by adapter, in order of arrival."""
    came: int = 0
    due: list[tuple[float, int, RequestId]] = field(default_factory=list)
    """Batch requests by deadline; an entry of a request that left is outdated."""

    @property
    def rank(self) -> float:
        """Virtual time, less its running part while it is within its share of slots. A flow with nothing running is
        moved ahead by its last request, since it waited for that answer. Both corrections are bounded: in the long
        run service follows weights.
        """
        if not self.running:
            return self.virtual - self.last
        return self.virtual - self.inside if self.slots < self.share else self.virtual

    @property
    def place(self) -> Place:
        """Least rank first, then fewest running slots. Any other entry is outdated."""
        return round(self.rank, 6), self.slots, self.arrival, self.tenant

    def push(self, work: Work) -> None:
        self.queue[work.request] = work
        self.cost += work.cost
        self.came += 1
        line = self.lines.get(work.adapter)
        if line is None:
            line = self.lines[work.adapter] = OrderedDict()
        line[work.request] = self.came
        if work.standing is Standing.BATCH:
            heapq.heappush(self.due, (work.deadline_at or math.inf, self.came, work.request))

    def take_out(self, work: Work) -> None:
        del self.queue[work.request]
        self.cost = self.cost - work.cost if self.queue else 0.0
        line = self.lines[work.adapter]
        del line[work.request]
        if not line:
            del self.lines[work.adapter]

    def oldest(self, may: Callable[[VersionId], bool]) -> Work:
        """Return the oldest of adapters that ``may`` be in the batch; without one, the oldest of all."""
        if len(self.lines) == 1:
            return self.head
        heads = [next(iter(line.items())) for adapter, line in self.lines.items() if may(adapter)]
        return self.queue[min(heads, key=lambda one: one[1])[0]] if heads else self.head

    def enter(self, work: Work) -> None:
        self.bypassed = 0
        self.last = work.cost / self.weight
        self.virtual += self.last
        self.inside += self.last
        self.charges[work.request] = self.last
        self.running += 1
        self.slots += work.sequences

    def leave(self, work: Work) -> None:
        self.running -= 1
        self.slots -= work.sequences
        charge = self.charges.pop(work.request)
        self.inside = self.inside - charge if self.running else 0.0

    @property
    def head(self) -> Work:
        """Return batch work with the nearest deadline, else the oldest request."""
        while self.due:
            if (request := self.due[0][-1]) in self.queue:
                return self.queue[request]
            heapq.heappop(self.due)
        return next(iter(self.queue.values()))

    def before(self, work: Work) -> float:
        if not self.due or not work.deadline_at:
            return self.cost
        return sum(one.cost for one in self.queue.values() if (one.deadline_at or math.inf) <= work.deadline_at)

    @property
    def newest(self) -> Work:
        return self.queue[next(reversed(self.queue))]


class LongestFlows:
    def __init__(self) -> None:
        self._heap: list[tuple[float, int, TenantId]] = []

    def note(self, flow: Flow, flows: Mapping[TenantId, Flow], busy: int) -> None:
        flow.noted = -flow.cost / flow.weight
        if len(self._heap) > 2 * busy + MOST_KNOWN:
            self._heap = [(f.noted, -f.arrival, f.tenant) for f in flows.values() if f.queue]
            heapq.heapify(self._heap)
        else:
            heapq.heappush(self._heap, (flow.noted, -flow.arrival, flow.tenant))

    def longest(self, flows: Mapping[TenantId, Flow]) -> Flow:
        """Return the newest of equal ones; at least one must wait."""
        while True:
            noted, arrival, tenant = self._heap[0]
            flow = flows.get(tenant)
            if flow is None or not flow.queue or flow.noted != noted:
                heapq.heappop(self._heap)
                continue
            load = -flow.cost / flow.weight
            if load == noted:
                return flow
            flow.noted = load
            heapq.heapreplace(self._heap, (load, arrival, tenant))

    def clear(self) -> None:
        self._heap.clear()
