"""Batch work beside interactive tenants in virtual time: the worker's rule, numbers by hand, and other doors.

The engine's steps cost what real vLLM's cost with SmolLM2 on one core. As a program it prints the table:
``python -m loadtests.yielding_in_time [--seconds 600]``.
"""

import argparse
import itertools
import math
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from loadtests import orders, overload
from loadtests.orders import QueueOrder
from loadtests.simulator.engine import SMOLLM2_ONE_CORE, EngineModel
from loadtests.simulator.worker import Arrival, Worker
from penstock.domain.ids import RequestId, TenantId
from penstock.domain.serving.slo import TimedPromise
from penstock.domain.tenancy.standing import Standing
from penstock.worker.engines.stepping import Stepping
from penstock.worker.gate.queueing.admission import AdmissionQueue
from penstock.worker.gate.queueing.constants import OVERBOOKED_PART
from penstock.worker.gate.queueing.work import Work
from penstock.worker.gate.queueing.yielding import Yielding

PROMISE = TimedPromise(first_s=1.0, each_s=0.1, late_ratio=0.05)
BATCH = TenantId("batch")
OPEN, SPAN_S = 48, 240.0
BY_HAND = (8, 10, 12, 14, 16)

Made = tuple[AdmissionQueue, EngineModel]


class FixedSlots(Yielding):
    """A number that an operator chose, while promised work is about."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def slots(self, now: float) -> int | None:
        return self.number if now < self.about_until() else None


class ByPriority(EngineModel):
    """vLLM's own priority queue: better classes are first of what waits for a slot."""

    def enter(self, work: Work, output_tokens: int) -> None:
        super().enter(work, output_tokens)
        self._waiting = deque(sorted(self._waiting, key=lambda one: -one.work.standing))


def ours(engine: type[EngineModel] = EngineModel) -> Made:
    seats = round(overload.SLOTS * (1 + OVERBOOKED_PART))
    model = engine(SMOLLM2_ONE_CORE, max_seqs=seats, stepping=Stepping())
    return AdmissionQueue(replace(overload.SIZE, preempts=True)), model


def plain(engine: type[EngineModel]) -> Made:
    """Return an engine that takes everything, as plain vLLM does."""
    return orders.make(QueueOrder.OPEN, overload.SIZE), engine(SMOLLM2_ONE_CORE, max_seqs=overload.SLOTS)


@dataclass(frozen=True, slots=True)
class Seen:
    """The seconds to readers' first tokens, and between further ones."""

    first_s: list[float]
    each_s: list[float]

    def first(self, q: float) -> float:
        return sorted(self.first_s)[int(q * len(self.first_s))]

    def each(self, q: float) -> float:
        return sorted(self.each_s)[int(q * len(self.each_s))]

    @property
    def is_kept(self) -> bool:
        return self.first(0.95) <= PROMISE.first_s and self.each(0.95) <= PROMISE.each_s


@dataclass(kw_only=True)
class Scene:
    """Interactive tenants that ask one question after another, in bursts if wished, beside a batch that is full."""

    readers: int
    phase_s: float = math.inf
    until_s: float = math.inf
    """The end of the readers' questions."""
    span_s: float = SPAN_S
    open: int = OPEN
    is_strict: bool = False
    yielding: Yielding = field(default_factory=Yielding)
    made: Callable[[], Made] = ours
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    learned: list[float] = field(default_factory=list)
    """The slots learned from further tokens, at each second; and those that batch work held."""
    held: list[float] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def play(self) -> Worker:
        queue, engine = self.made()
        queue.yielding = self.yielding
        worker = Worker(queue, engine)
        worker.promise = PROMISE
        for number in range(self.readers):
            worker.expect(self.question(f"reader-{number}", 0.1 * number))
        for number in range(self.open):
            worker.expect(self.line(0.01 * number))
        for second in range(1, round(self.span_s)):
            worker.run(float(second))
            self.learned.append(self.yielding.each.slots)
            self.held.append(queue.slots.held_up_to(Standing.BATCH).slots)
        return worker

    def question(self, tenant: str, at: float) -> Arrival:
        def again(now: float) -> Arrival | None:
            at = now + self.chance.expovariate(1 / (0.3 * max(1.0, self.readers / 2)))
            if self.phase_s < math.inf and at // self.phase_s % 2:
                at = (at // self.phase_s + 1) * self.phase_s + self.chance.random() / 2
            return self.question(tenant, at) if at < self.until_s else None

        prompt = max(1, round(self.chance.gauss(20, 6)))
        work = self._work(tenant, Standing.INTERACTIVE, prompt, 24)
        return Arrival(at=at, work=work, output_tokens=24, then=again)

    def line(self, at: float) -> Arrival:
        prompt, output = max(1, round(self.chance.gauss(80, 24))), 1 + int(self.chance.expovariate(0.01))
        work = self._work(BATCH, Standing.BATCH, prompt, output)
        if self.is_strict:
            work = replace(work, stops_until=at + self.span_s)
        return Arrival(at=at, work=work, output_tokens=output, then=self.line)

    def _work(self, tenant: str, standing: Standing, prompt: int, output: int) -> Work:
        return Work(
            request=RequestId(f"{tenant}/{next(self._numbers)}"),
            tenant=TenantId(tenant),
            standing=standing,
            weight=1.0,
            prompt_tokens=prompt,
            expected_output_tokens=round(1.2 * output),
        )


def seen_by_readers(worker: Worker) -> Seen:
    readers = [record for tenant, record in worker.records.items() if tenant != BATCH]
    return Seen(
        [one for record in readers for one in record.ttft_s], [one for record in readers for one in record.itl_s]
    )


def scenes(readers: int, phase_s: float, seconds: float) -> Iterator[tuple[str, Scene]]:
    made = partial(Scene, readers=readers, phase_s=phase_s, span_s=seconds)
    yield "alone", made(open=0)
    yield "default", made()
    yield "strict", made(is_strict=True)
    yield "door before", made(yielding=FixedSlots(overload.SLOTS))
    yield "plain vLLM", made(made=partial(plain, EngineModel))
    yield "priority queue", made(made=partial(plain, ByPriority))
    for number in BY_HAND:
        yield f"by hand: {number}", made(yielding=FixedSlots(number))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0, help="virtual seconds of each row")
    options = parser.parse_args()
    print(f"{'':24}{'TTFT p50':>10}{'p99 ms':>8}{'/ alone':>9}{'ITL p95':>9}{'kept':>6}{'batch service/s':>17}")
    for readers, phase_s in ((1, math.inf), (1, 20.0), (8, math.inf), (8, 20.0)):
        print(f"{readers} tenants, {'steady' if phase_s == math.inf else 'bursts and calm of 20 s'}")
        alone_s = 0.0
        for name, scene in scenes(readers, phase_s, options.seconds):
            worker = scene.play()
            seen, service = seen_by_readers(worker), worker.records[BATCH].service / options.seconds
            alone_s = alone_s or seen.first(0.99)
            first = f"{1e3 * seen.first(0.5):>10.0f}{1e3 * seen.first(0.99):>8.0f}{seen.first(0.99) / alone_s:>9.2f}"
            each = f"{1e3 * seen.each(0.95):>9.0f}{'yes' if seen.is_kept else 'no':>6}"
            print(f"  {name:22}{first}{each}{service:>17.0f}", flush=True)


if __name__ == "__main__":
    main()
