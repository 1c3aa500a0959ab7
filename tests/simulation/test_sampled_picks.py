"""Sampled picks in virtual time: what looking at a few workers does to callers, against looking at all."""

import gzip
import heapq
import itertools
import json
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from penstock.domain.fleet.table import RoutingTable, VersionEntry, WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import WorkerId
from penstock.domain.serving.report import Load
from penstock.domain.serving.request import Prepared
from penstock.gateway.dispatch.breaker import Breakers
from penstock.gateway.routing.current import CurrentTable
from penstock.gateway.routing.route import WorkerRouter
from penstock.gateway.routing.selection import RouterSettings, SampleSettings
from penstock.telemetry.metrics import Metrics
from tests.support.clock import ManualClock
from tests.support.samples.calls import VERSION
from tests.support.variants import drilled

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
    ttft_s: list[float] = field(default_factory=list)
    hit_blocks: int = 0
    blocks: int = 0

    def quantile(self, q: float) -> float:
        return sorted(self.ttft_s)[int(q * len(self.ttft_s))]


class Worker:
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


TRACE = Path(__file__).resolve().parents[3] / "shared/traces/mooncake_conversation.jsonl.gz"
BUCKET_S = 3.0
"""The trace's arrivals are rounded to this."""
BLOCK = 512
REQUESTS = 6_000
PER_WORKER_S, SPAN_S = 12.0, 12.0


def poisson(workers: int, seed: int) -> Iterator[Ask]:
    """Yield independent requests of very unlike lengths."""
    chance, now = random.Random(seed), 0.0
    while (now := now + chance.expovariate(PER_WORKER_S * workers)) < SPAN_S:
        prompt = max(1, min(8_000, int(chance.lognormvariate(6.7, 0.85))))
        yield Ask(at=now, prompt_tokens=prompt, output_tokens=max(1, int(chance.expovariate(1 / 211))))


def test_a_sample_waits_no_longer_than_the_scan_of_all(record_property: Callable[[str, object], None]) -> None:
    """64 workers, four gateways, loads a second old: the p99 to the first token is not above the full scan's."""
    found = {}
    for name, sample in (("drawn", SampleSettings()), ("all", EVERYBODY)):
        whole = Seen()
        for seed in range(3):
            fleet = Fleet(64, 4, sample, pace=Pace(), block_size=16, seed=seed)
            whole.ttft_s += fleet.play(poisson(64, seed)).ttft_s
        found[name] = {q: whole.quantile(q) for q in (0.5, 0.99)}
    record_property("ttft_s", found)
    assert found["drawn"][0.99] <= found["all"][0.99]
    assert found["drawn"][0.5] <= 1.02 * found["all"][0.5]


def test_waiting_hangs_on_load_and_not_on_size() -> None:
    """At the same load per worker the p99 to the first token is alike with 50 and with 250 workers."""
    small, large = (
        Fleet(size, 4, SampleSettings(), pace=Pace(), block_size=16, seed=1).play(poisson(size, 1)).quantile(0.99)
        for size in (50, 250)
    )
    assert large < 1.1 * small


def mooncake() -> Iterator[Ask]:
    """Yield half an hour of real conversations, arrivals spread within their bucket (Mooncake, FAST'25, Apache-2.0)."""
    chance = random.Random(5)
    with gzip.open(TRACE, "rt") as lines:
        rows = [json.loads(line) for line in itertools.islice(lines, REQUESTS)]
    for at, bucket in itertools.groupby(rows, key=lambda row: row["timestamp"]):
        together = list(bucket)
        for offset, row in zip(sorted(chance.uniform(0, BUCKET_S) for _ in together), together, strict=True):
            yield Ask(
                at=at / 1e3 + offset,
                prompt_tokens=row["input_length"],
                output_tokens=row["output_length"],
                blocks=tuple(row["hash_ids"]),
            )


@pytest.mark.skipif(not TRACE.exists(), reason="the Mooncake trace is not beside the repository")
@pytest.mark.parametrize("gateways", [4, *drilled([1])])
def test_a_sample_finds_the_prefixes_that_the_scan_finds(
    gateways: int, record_property: Callable[[str, object], None]
) -> None:
    """On half an hour of real conversations the engines' caches are hit at least 98 % as often as with all."""
    drawn, scanned = (
        Fleet(32, gateways, sample, pace=Pace(cached_blocks=900), block_size=BLOCK, seed=2).play(mooncake())
        for sample in (SampleSettings(), EVERYBODY)
    )
    record_property("hits", {"drawn": drawn.hit_blocks, "all": scanned.hit_blocks, "blocks": drawn.blocks})
    assert drawn.hit_blocks >= 0.98 * scanned.hit_blocks > 0
