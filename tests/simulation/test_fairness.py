"""Fairness in virtual time: the real queue against first come, first served, on made and on recorded traffic."""

import itertools
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from loadtests import orders
from loadtests.orders import QueueOrder
from loadtests.simulator import servegen
from loadtests.simulator.engine import SMOLLM2_ONE_CORE, SMOLLM2_TWO_CORES, EngineModel
from loadtests.simulator.worker import Arrival, TenantRecord, Worker, run
from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing import anticipation
from penstock.worker.gate.queueing.admission import AdmissionQueue
from penstock.worker.gate.queueing.slots import EngineSize
from penstock.worker.gate.queueing.work import Work

SLOTS = 16
SPAN_S = 600.0
VICTIM, FLOOD = TenantId("victim"), TenantId("flood")
TRACES = Path(os.environ.get("TRACES_DIR", Path(__file__).parents[3] / "shared" / "traces"))


def a_queue(order: QueueOrder = QueueOrder.FAIR) -> AdmissionQueue:
    size = EngineSize(max_seqs=SLOTS, kv_blocks=1000, block_size=32)
    return orders.make(order, size, pace=1000.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Habit:
    """How one tenant behaves: requests a second, bounds of its prompts, mean of its answers."""

    tenant: TenantId
    per_s: float
    prompts: tuple[int, int]
    output: int
    patience_s: float = 0.0

    def arrivals(self, seed: int) -> Iterator[Arrival]:
        """Yield Poisson arrivals over the whole span."""
        chance, at, number = random.Random(seed), 0.0, 0
        while (at := at + chance.expovariate(self.per_s)) < SPAN_S:
            number += 1
            yield self.arrival(number, at, chance)

    def arrival(self, number: int, at: float, chance: random.Random) -> Arrival:
        work = Work(
            request=RequestId(f"{self.tenant}/{number}"),
            tenant=self.tenant,
            standing=Standing.PAID,
            weight=1.0,
            prompt_tokens=chance.randrange(*self.prompts),
            expected_output_tokens=self.output,
            deadline_at=at + self.patience_s if self.patience_s else 0.0,
        )
        return Arrival(at=at, work=work, output_tokens=chance.randrange(1, 2 * self.output))


def play(queue: AdmissionQueue, *habits: Habit) -> dict[TenantId, TenantRecord]:
    arrivals = [arrival for seed, habit in enumerate(habits, start=1) for arrival in habit.arrivals(seed)]
    return run(arrivals, queue, EngineModel(SMOLLM2_TWO_CORES), SPAN_S)


def test_a_flood_hardly_touches_its_neighbour(record_property: Callable[[str, object], None]) -> None:
    """Ten times a document reader's load leaves its p99 TTFT within 1.35 of its own alone, with 16 slots."""
    victim = Habit(tenant=VICTIM, per_s=0.5, prompts=(400, 900), output=40)
    flood = Habit(tenant=FLOOD, per_s=5.0, prompts=(50, 250), output=60)
    alone = play(a_queue(), victim)[VICTIM].ttft_quantile(0.99)
    fair = play(a_queue(), victim, flood)[VICTIM].ttft_quantile(0.99)
    fifo = play(a_queue(QueueOrder.FIFO), victim, flood)[VICTIM].ttft_quantile(0.99)
    record_property("p99_ttft_s", {"alone": alone, "fair": fair, "fifo": fifo})
    assert fair <= 1.35 * alone
    assert fifo > 5 * alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What a reader of documents, one after another, and a flood beside it experienced."""

    reader: TenantRecord
    flood: TenantRecord


def read_beside(flood: Habit | None) -> Beside:
    """Let a reader ask, look at the answer for 0.3 s on average and ask again, in front of an engine of 32 slots."""
    queue = AdmissionQueue(EngineSize(max_seqs=32, kv_blocks=4000, block_size=32, prefill_tokens=512))
    engine, chance = EngineModel(SMOLLM2_ONE_CORE, max_seqs=32), random.Random(1)
    worker, numbers = Worker(queue, engine), itertools.count(1)
    reads = Habit(tenant=VICTIM, per_s=1.0, prompts=(220, 490), output=16)

    def ask(now: float) -> Arrival:
        at = now + chance.expovariate(1 / 0.3)
        return replace(reads.arrival(next(numbers), at, chance), output_tokens=reads.output, then=ask)

    worker.expect(ask(8.0))
    for arrival in flood.arrivals(2) if flood else ():
        worker.expect(arrival)
    worker.run(SPAN_S)
    return Beside(reader=worker.records[VICTIM], flood=worker.records[FLOOD])


def test_a_flood_waits_for_a_neighbour_that_is_expected_back(
    monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    """With all 32 slots a reader's p99 TTFT stays within 1.3 of its own alone; the flood pays a twentieth at most."""
    flood = Habit(tenant=FLOOD, per_s=9.0, prompts=(33, 166), output=60, patience_s=20.0)
    alone = read_beside(None).reader.ttft_quantile(0.99)
    fair = read_beside(flood)
    monkeypatch.setattr(anticipation, "ANTICIPATION_PART", 0.0)
    hasty = read_beside(flood)
    p99 = {"alone": alone, "fair": fair.reader.ttft_quantile(0.99), "hasty": hasty.reader.ttft_quantile(0.99)}
    record_property("p99_ttft_s", p99)
    record_property("flood_answers", {"fair": fair.flood.in_time, "hasty": hasty.flood.in_time})
    assert p99["fair"] <= 1.3 * alone < p99["hasty"]
    assert fair.flood.in_time >= 0.95 * hasty.flood.in_time


@pytest.mark.skipif(not TRACES.exists(), reason="public traces are not at hand (TRACES_DIR)")
def test_recorded_clients_get_fair_service_under_overload(record_property: Callable[[str, object], None]) -> None:
    """On ServeGen's clients at overload the heavy ones bear the queue, and the light ones hardly see it."""
    chance = random.Random(5)
    clients = servegen.clients(TRACES, "m-small", 43_200)
    total = sum(c.rate_per_s for c in clients)
    scale = 14.0 / total
    traffic = list(servegen.arrivals(clients, scale=scale, span_s=600.0, chance=chance))
    fair = run(traffic, a_queue(), EngineModel(SMOLLM2_TWO_CORES), 600.0)
    fifo = run(traffic, a_queue(QueueOrder.FIFO), EngineModel(SMOLLM2_TWO_CORES), 600.0)
    heavy = max(clients, key=lambda c: c.rate_per_s).name
    light = [t for t in fair if t != heavy and len(fifo[t].ttft_s) >= 5]

    def worst(records: dict[TenantId, TenantRecord]) -> float:
        return sorted(records[t].ttft_quantile(0.95) for t in light)[len(light) // 2]

    record_property("median_light_p95_ttft_s", {"fair": worst(fair), "fifo": worst(fifo)})
    assert worst(fair) < worst(fifo) / 4
