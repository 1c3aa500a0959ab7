"""A fleet in virtual time behind several gateways that route with the real code and know loads a second late.

A worker computes prompts one after another, what its prefix cache has left out, and decodes all that run at once.
That is enough to see what routing does to the wait for a first token.
"""

import heapq
import random
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from penstock.domain.fleet.table import RoutingTable, VersionEntry, WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import WorkerId
from penstock.domain.serving.load import Load
from penstock.domain.serving.request import Prepared
from penstock.gateway.dispatch import Breakers
from penstock.gateway.routing import CurrentTable, RouterSettings, SampleSettings, WorkerRouter
from penstock.telemetry.metrics import Metrics
from tests.support.clock import ManualClock
from tests.support.samples.calls import VERSION

EVERYBODY = SampleSettings(choices=10**6)
"""The scan of all."""
NOBODY: frozenset[WorkerId] = frozenset()
REPORT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """An engine's speed: an 8B model on one H100 by default."""

    prefill_tokens_per_s: float = 36_000.0
    token_s: float = 0.010
    cached_blocks: int = 28_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request: when, how long, which prefix blocks."""

    at: float
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()


@dataclass
class Seen:
    """What came of the traffic."""

    ttft_s: list[float] = field(default_factory=list)
    hit_blocks: int = 0
    blocks: int = 0

    def quantile(self, q: float) -> float:
        return sorted(self.ttft_s)[int(q * len(self.ttft_s))]


class Worker:
    """One engine."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.free_at = 0.0
        self.ends: list[tuple[float, float]] = []
        self.cache: OrderedDict[int, None] = OrderedDict()

    def take(self, ask: Ask, block_size: int) -> tuple[float, int]:
        """Return the time to the first token and how many blocks were cached."""
        hit = self._hit(ask.blocks)
        work = max(1, ask.prompt_tokens - hit * block_size)
        self.free_at = max(self.free_at, ask.at) + work / self.pace.prefill_tokens_per_s
        heapq.heappush(self.ends, (self.free_at + ask.output_tokens * self.pace.token_s, self.free_at))
        return self.free_at - ask.at, hit

    def load(self, now: float) -> Load:
        """Report as a gate does: prompt tokens not computed yet, and what is expected of running answers."""
        while self.ends and self.ends[0][0] <= now:
            heapq.heappop(self.ends)
        queued = max(0.0, self.free_at - now) * self.pace.prefill_tokens_per_s
        decoding = sum((end - max(now, begin)) / self.pace.token_s for end, begin in self.ends)
        waiting = sum(begin > now for _, begin in self.ends)
        return Load(running=len(self.ends) - waiting, waiting=waiting, queued_tokens=int(queued + decoding))

    def _hit(self, blocks: tuple[int, ...]) -> int:
        cache = self.cache
        hit = next((depth for depth, block in enumerate(blocks) if block not in cache), len(blocks))
        for block in reversed(blocks):  # the end of a prompt leaves first, as in vLLM
            cache[block] = None
            cache.move_to_end(block)
        while len(cache) > self.pace.cached_blocks:
            cache.popitem(last=False)
        return hit


class Fleet:
    """Workers and gateways; requests come to the gateways in turn."""

    def __init__(
        self, workers: int, gateways: int, sample: SampleSettings, *, pace: Pace, block_size: int, seed: int
    ) -> None:
        self.clock = ManualClock()
        self.workers = {WorkerId(f"w{n}"): Worker(pace) for n in range(workers)}
        self.version: VersionEntry = replace(VERSION, block_size=block_size)
        self.gateways = [self._gateway(sample, seed + n) for n in range(gateways)]
        self._reports: deque[dict[WorkerId, Load]] = deque([dict.fromkeys(self.workers, Load())])
        self._number = 0

    def play(self, asks: Iterable[Ask]) -> Seen:
        """Send all, and return what came of it."""
        seen = Seen()
        for turn, ask in enumerate(self._until(asks)):
            _, router = self.gateways[turn % len(self.gateways)]
            prepared = Prepared(prompt_tokens=ask.prompt_tokens, blocks=ask.blocks)
            chosen = router.pick(self.version, prepared, lambda _: None, NOBODY).id
            ttft_s, hit = self.workers[chosen].take(ask, self.version.block_size)
            router.dispatched(chosen, ask.prompt_tokens - hit * self.version.block_size + ask.output_tokens)
            seen.ttft_s.append(ttft_s)
            seen.hit_blocks += hit
            seen.blocks += len(ask.blocks)
        return seen

    def _until(self, asks: Iterable[Ask]) -> Iterator[Ask]:
        """Yield requests as their time comes, with the reports between them."""
        due = 0.0
        for ask in asks:
            while due <= ask.at:
                self.clock.elapsed_s = due
                self._report(due)
                due += REPORT_S
            self.clock.elapsed_s = ask.at
            yield ask

    def _report(self, now: float) -> None:
        """Publish what the workers said a second ago, and take down what they say now."""
        said = self._reports.popleft()
        self._reports.append({name: worker.load(now) for name, worker in self.workers.items()})
        entries = tuple(
            WorkerEntry(id=name, url="http://x", state=WorkerState.READY, load=load) for name, load in said.items()
        )
        self._number += 1
        table = RoutingTable(number=self._number, made_at=now, versions=(replace(self.version, workers=entries),))
        for current, _ in self.gateways:
            current.swap(table, now)

    def _gateway(self, sample: SampleSettings, seed: int) -> tuple[CurrentTable, WorkerRouter]:
        table, chance = CurrentTable(), random.Random(seed)
        settings = RouterSettings(sample=sample, max_waiting=10**9)
        router = WorkerRouter(
            table=table, health=Breakers(chance), clock=self.clock, chance=chance, settings=settings, metrics=Metrics()
        )
        return table, router
