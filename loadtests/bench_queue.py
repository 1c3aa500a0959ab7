"""What waiting in fair order costs: microseconds of CPU per operation of the queue, by the number of waiting
requests.

Run: ``make bench-queue``. Everything runs in this process and is timed by its own CPU clock, best of three, so a busy
machine hardly changes the figures. Ends with 1 if ten thousand waiting requests make an operation dearer than its
bound.
"""

import gc
import random
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.admission import AdmissionQueue
from penstock.worker.gate.queueing.fair_queue import Bounds, FairQueue
from penstock.worker.gate.queueing.slots import EngineSize
from penstock.worker.gate.queueing.work import Fit, Work

QUEUED = (10, 1_000, 10_000)
TENANTS = (1, 100, 1_000)
OPERATIONS = 1_000
ROUNDS = 3
MOST_US = 20.0
WIDE = Bounds(tenant_requests=10**6, tenant_cost=1e12, total_requests=10**6, total_cost=1e12)
SIZE = EngineSize(max_seqs=64, kv_blocks=100_000, block_size=16, prefill_tokens=10**9)

_numbers = count()
_chance = random.Random(5)


def work(tenants: int, standing: Standing = Standing.PAID) -> Work:
    """Return a request of one of this many tenants."""
    return Work(
        request=RequestId(f"r{next(_numbers)}"),
        tenant=TenantId(f"t{_chance.randrange(tenants)}"),
        standing=standing,
        weight=1.0,
        prompt_tokens=_chance.randrange(1, 2000),
        expected_output_tokens=_chance.randrange(1, 500),
    )


def filled(queued: int, tenants: int, bounds: Bounds = WIDE, standing: Standing = Standing.PAID) -> FairQueue:
    """Return a queue with this many waiting requests of this many tenants."""
    queue = FairQueue(bounds)
    for _ in range(queued):
        queue.push(work(tenants, standing))
    return queue


def anything(_: Work) -> Fit:
    return Fit.YES


def cpu_us(operation: Callable[[Work], None], prepared: list[Work]) -> float:
    began = time.process_time()
    for one in prepared:
        operation(one)
    return (time.process_time() - began) / len(prepared) * 1e6


def push_pop(queued: int, tenants: int) -> float:
    """One request comes, another one goes in and ends, at constant length."""
    queue = filled(queued, tenants)

    def operation(one: Work) -> None:
        queue.push(one)
        queue.finish(taken) if (taken := queue.pop(anything)) else None

    return cpu_us(operation, [work(tenants) for _ in range(OPERATIONS)])


def correct(queued: int, tenants: int) -> float:
    """A running request is charged for tokens beyond its expectation."""
    queue = filled(queued, tenants)
    running = [taken for _ in range(5) if (taken := queue.pop(anything)) is not None]

    def operation(one: Work) -> None:
        queue.correct(one, 32.0)

    return cpu_us(operation, [_chance.choice(running) for _ in range(OPERATIONS)])


def evict(queued: int, tenants: int) -> float:
    """Push a better request into a full queue, which evicts another."""
    queue = filled(queued, tenants, replace(WIDE, total_requests=queued), Standing.BATCH)

    def operation(one: Work) -> None:
        if queue.make_room(one):
            queue.push(one)

    most = min(OPERATIONS, queued)
    return cpu_us(operation, [work(tenants, Standing.INTERACTIVE) for _ in range(most)])


def leave_early(queued: int, tenants: int) -> float:
    """A request comes and leaves while it waits."""
    queue = filled(queued, tenants)

    def operation(one: Work) -> None:
        queue.push(one)
        queue.remove(one.request)

    return cpu_us(operation, [work(tenants) for _ in range(OPERATIONS)])


def through_the_door(queued: int, tenants: int) -> float:
    """A request comes to the queue of a full engine, another one gets its first token, then its last."""
    queue = AdmissionQueue(SIZE, bounds=WIDE)
    inside: list[RequestId] = []
    at = count(1)
    for _ in range(queued + SIZE.max_seqs):
        _arrive(queue, work(tenants), 0.0, inside)

    def operation(one: Work) -> None:
        now = next(at) * 1e-3
        _arrive(queue, one, now, inside)
        done = inside.pop(0)
        queue.progressed(done, 8, now)
        queue.leave(done, now)

    return cpu_us(operation, [work(tenants) for _ in range(OPERATIONS)])


def _arrive(queue: AdmissionQueue, one: Work, now: float, inside: list[RequestId]) -> None:
    queue.arrive(one, now, partial(inside.append, one.request), lambda *_: None)


BENCHES = {
    "push + pop": push_pop,
    "correct": correct,
    "evict + push": evict,
    "push + remove": leave_early,
    "door: arrive, first token, leave": through_the_door,
}


def main() -> int:
    """Print the table; return the exit code."""
    gc.disable()
    worst = 0.0
    print(f"{'us of CPU per operation':34} {'tenants':>8}" + "".join(f"{n:>10}" for n in QUEUED) + "   10k/10")
    for name, bench in BENCHES.items():
        for tenants in TENANTS:
            found = [min(bench(queued, tenants) for _ in range(ROUNDS)) for queued in QUEUED]
            shown = "".join(f"{us:>10.1f}" for us in found)
            print(f"{name:34} {tenants:>8}{shown} {found[-1] / found[0]:>8.1f}")
            worst = max(worst, 0.0 if bench is through_the_door else found[-1])
    print(f"dearest queue operation with {QUEUED[-1]} waiting: {worst:.1f} us (bound {MOST_US:.0f})")
    return 0 if worst < MOST_US else 1


if __name__ == "__main__":
    sys.exit(main())
