"""Goodput under overload in virtual time: the share of capacity spent on answers in time.

Tenants of every priority ask at random beyond the worker's capacity; callers leave at their deadline. Each queue gets
the same traffic. As a program it prints the table: ``python -m loadtests.overload``.
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from loadtests import orders
from loadtests.orders import QueueOrder
from loadtests.simulator.engine import SMOLLM2_TWO_CORES, EngineModel
from loadtests.simulator.worker import Arrival, TenantRecord, run
from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.fair_queue import Bounds
from penstock.worker.gate.queueing.slots import EngineSize
from penstock.worker.gate.queueing.work import Work

SLOTS = 32
SIZE = EngineSize(max_seqs=SLOTS, kv_blocks=4000, block_size=32, prefill_tokens=512)
PATIENCE_S = 30.0
"""How long after it has asked a caller leaves: ten times what an answer takes in a full engine."""
SPAN_S = 240.0

TENANTS = (
    (Standing.INTERACTIVE, 3),
    (Standing.PAID, 8),
    (Standing.FREE, 8),
    (Standing.BATCH, 3),
)
"""Who asks: so many tenants of each standing, all alike otherwise."""
MEAN_PROMPT, MEAN_OUTPUT = 120, 60
EXPECTED_OUTPUT = 140
"""What is expected of an answer: about nine of ten are shorter, as the gateways' learned quantile has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    """One queue's result at one load: shares of capacity and of requests by priority."""

    order: QueueOrder
    load: float
    good_ratio: float
    wasted_ratio: float
    in_time: dict[Standing, float]


def traffic(per_s: float, chance: random.Random, *, patience_s: float, span_s: float) -> Iterator[Arrival]:
    who = [(TenantId(f"{standing.name.lower()}-{i}"), standing) for standing, many in TENANTS for i in range(many)]
    at, number = 0.0, 0
    while (at := at + chance.expovariate(per_s)) < span_s:
        number += 1
        tenant, standing = chance.choice(who)
        work = Work(
            request=RequestId(str(number)),
            tenant=tenant,
            standing=standing,
            weight=1.0,
            prompt_tokens=1 + int(chance.expovariate(1 / MEAN_PROMPT)),
            expected_output_tokens=EXPECTED_OUTPUT,
            deadline_at=at + patience_s if patience_s else 0.0,
        )
        yield Arrival(at=at, work=work, output_tokens=1 + min(511, int(chance.expovariate(1 / MEAN_OUTPUT))))


def play(order: QueueOrder, arrivals: Iterable[Arrival], span_s: float = SPAN_S) -> dict[TenantId, TenantRecord]:
    """Run the traffic against this queue before an engine of 32 slots."""
    return run(arrivals, orders.make(order, SIZE), EngineModel(SMOLLM2_TWO_CORES, max_seqs=SLOTS), span_s)


@cache
def capacity() -> float:
    """Return the tokens of service per second of an engine with full slots and patient callers."""
    crowd = list(traffic(60.0, random.Random(0), patience_s=0.0, span_s=SPAN_S))
    wide = Bounds(tenant_requests=10**6, tenant_cost=1e12, total_requests=10**6, total_cost=1e12)
    queue = orders.make(QueueOrder.FIFO, SIZE, bounds=wide)
    records = run(crowd, queue, EngineModel(SMOLLM2_TWO_CORES, max_seqs=SLOTS), SPAN_S)
    return sum(record.service for record in records.values()) / SPAN_S


def goodput(order: QueueOrder, load: float, capacity_per_s: float, seed: int = 1) -> Goodput:
    """Offer ``load`` times the capacity to a queue."""
    mean_cost = MEAN_PROMPT + 2.0 * MEAN_OUTPUT
    per_s = load * capacity_per_s / mean_cost
    records = play(order, traffic(per_s, random.Random(seed), patience_s=PATIENCE_S, span_s=SPAN_S))
    done, good = sum(r.service for r in records.values()), sum(r.good for r in records.values())
    return Goodput(
        order=order,
        load=load,
        good_ratio=good / SPAN_S / capacity_per_s,
        wasted_ratio=(done - good) / SPAN_S / capacity_per_s,
        in_time={standing: _in_time(records, standing) for standing, _ in TENANTS},
    )


def _in_time(records: dict[TenantId, TenantRecord], standing: Standing) -> float:
    mine = [record for tenant, record in records.items() if tenant.startswith(standing.name.lower())]
    return sum(record.in_time for record in mine) / max(1, sum(record.asked for record in mine))


def main() -> None:
    most = capacity()
    standings = [standing for standing, _ in TENANTS]
    print(f"capacity {most:.0f} tokens of service per second; callers leave after {PATIENCE_S:.0f} s")
    heads = "".join(f"{one.name.lower():>13}" for one in standings)
    print(f"{'load':>5} {'door':5} {'goodput':>8} {'in vain':>8} {heads}  (answers in time)")
    for load in (1.0, 1.5, 2.5):
        for order in QueueOrder:
            found = goodput(order, load, most)
            shares = "".join(f"{found.in_time[one]:>13.0%}" for one in standings)
            print(f"{load:>5} {order:5} {found.good_ratio:>8.0%} {found.wasted_ratio:>8.0%} {shares}")


if __name__ == "__main__":
    main()
