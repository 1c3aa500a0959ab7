"""One batching device in virtual time: traffic meets the real policy and the real predictions of compute time.

The device runs one batch after another; a second one in flight waits behind the first. Pure: compute times are an
argument.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, Protocol

from penstock.domain.serving.report import Trigger
from penstock.worker.batching.compute import Computes
from penstock.worker.batching.items import Item, Key, Waiting
from penstock.worker.batching.policy import Batch, BatchDecision, DeviceState, Policy
from penstock.worker.batching.settings import BatchSettings

Took = Callable[[Key, int, float], float]
"""Seconds of a batch by key, size and start."""


class Batching(Protocol):
    def come(self, waiting: Waiting) -> None: ...

    def expire(self, now: float) -> list[Waiting]: ...

    def decide(self, now: float, device: DeviceState) -> BatchDecision: ...


class Arrival(NamedTuple):
    at: float
    item: Item


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedBatch:
    """Times of its decision and end, and the p99 of compute predicted at the decision."""

    key: Key
    trigger: Trigger
    decided_at: float
    began_at: float
    ended_at: float
    p99_s: float
    window_s: float
    taken: tuple[Waiting, ...]


@dataclass(slots=True)
class Played:
    """The result of simulated traffic; ``busy`` are the spans without a free slot."""

    batches: list[ServedBatch] = field(default_factory=list)
    expired: list[Waiting] = field(default_factory=list)
    late: list[Waiting] = field(default_factory=list)
    busy: list[tuple[float, float]] = field(default_factory=list)

    @property
    def missed(self) -> int:
        done_late = sum(one.deadline_at < batch.ended_at for batch in self.batches for one in batch.taken)
        return len(self.expired) + len(self.late) + done_late


After = Callable[[ServedBatch], Iterable[Item]]
"""Arrivals that follow a batch's end at once."""


def _nothing(_: ServedBatch) -> Iterable[Item]:
    return ()


class _Running(NamedTuple):
    ended_at: float
    number: int
    served: ServedBatch


class Bench:
    """A device with its policy; ``learns`` is None for a policy that learns nothing."""

    def __init__(
        self,
        policy: Batching,
        settings: BatchSettings,
        took: Took,
        learns: Computes | None = None,
        *,
        after: After = _nothing,
    ) -> None:
        self._after = after
        self._policy, self._settings, self._took, self._learns = policy, settings, took, learns
        self.played = Played()
        self._running: list[_Running] = []
        self._free_at, self._since, self._full_since = 0.0, 0.0, inf
        self._numbers = itertools.count()

    def play(self, arrivals: Iterable[Arrival], until: float = inf) -> Played:
        coming = deque(sorted(arrivals, key=lambda one: one.at))
        look_at = inf
        while coming or self._running or look_at < inf:
            now = min(coming[0].at if coming else inf, self._running[0].ended_at if self._running else inf, look_at)
            if now > until:
                break
            while self._running and self._running[0].ended_at <= now:
                self._end(heapq.heappop(self._running), now)
            while coming and coming[0].at <= now:
                self._policy.come(Waiting(coming[0].item, coming.popleft().at))
            look_at = self._look(now)
        return self.played

    def _look(self, now: float) -> float:
        self.played.expired += self._policy.expire(now)
        decision = self._policy.decide(now, self._device())
        while decision.batch is not None:
            self._start(decision.batch, now)
            decision = self._policy.decide(now, self._device())
        return max(decision.look_at, now + 1e-9)

    def _device(self) -> DeviceState:
        return DeviceState(len(self._running), self._since, self._free_at)

    def _start(self, batch: Batch, now: float) -> None:
        size = len(batch.taken)
        began_at = max(now, self._free_at if self._running else now)
        ended_at = began_at + self._took(batch.key, size, began_at)
        self._free_at, self._since = ended_at, now
        known = self._learns
        self.played.late += batch.late
        served = ServedBatch(
            key=batch.key,
            trigger=batch.trigger,
            decided_at=now,
            began_at=began_at,
            ended_at=ended_at,
            p99_s=known.p99(batch.key, size) if known else 0.0,
            window_s=self._policy.window_s(batch.key, size) if isinstance(self._policy, Policy) else 0.0,
            taken=batch.taken,
        )
        heapq.heappush(self._running, _Running(ended_at, next(self._numbers), served))
        if len(self._running) == self._settings.in_flight:
            self._full_since = now

    def _end(self, running: _Running, now: float) -> None:
        served = running.served
        if len(self._running) == self._settings.in_flight - 1:
            self.played.busy.append((self._full_since, now))
        self._since = now
        self.played.batches.append(served)
        if self._learns is not None:
            self._learns.learn(served.key, len(served.taken), served.ended_at - served.began_at, now)
        for item in self._after(served):
            self._policy.come(Waiting(item, now))


def play(arrivals: Iterable[Arrival], settings: BatchSettings, took: Took) -> Played:
    computes = Computes(settings.prior, settings.max_items)
    return Bench(Policy(settings, computes), settings, took, computes).play(arrivals)
