"""Tenants of different habits in virtual time: a reader beside a crowd, behind any of the queues.

The reader asks, reads the answer, and asks again. The crowd asks at random beyond the engine's capacity, its tenants by
Zipf's law, or as callers that never pause. As a program it prints the table in decision records 0045 and 0048:
``python -m loadtests.habits``.
"""

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from loadtests import orders
from loadtests.orders import QueueOrder
from loadtests.simulator.engine import CHUNK_TOKENS, SMOLLM2_ONE_CORE, EngineModel
from loadtests.simulator.worker import Arrival, TenantRecord, run
from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.engines.stepping import Stepping, prompt_bound
from penstock.worker.gate.queueing.constants import OVERBOOKED_PART
from penstock.worker.gate.queueing.slots import EngineSize
from penstock.worker.gate.queueing.work import Work

READER = TenantId("reader")
CROWD_PER_S = 11.0
"""Ten times what a reader of documents asks alone."""
FIRST_S = 10.0
"""The crowd is there before the reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habit:
    """Traffic of one kind: bounds of prompts, tokens of answers."""

    name: str
    prompts: tuple[int, int]
    output: int
    patience_s: float = 0.0
    callers: int = 0
    """So many ask one request after another, instead of at random."""

    def arrival(self, tenant: TenantId, number: int, at: float, chance: random.Random) -> Arrival:
        work = Work(
            request=RequestId(f"{tenant}/{number}"),
            tenant=tenant,
            standing=Standing.PAID,
            weight=1.0,
            prompt_tokens=chance.randint(*self.prompts),
            expected_output_tokens=self.output,
            deadline_at=at + self.patience_s if self.patience_s else 0.0,
        )
        return Arrival(at=at, work=work, output_tokens=self.output)

    def asking(self, tenant: TenantId, caller: int, pause: Callable[[random.Random], float]) -> Arrival:
        """Return the first request of a closed-loop caller."""
        chance, numbers = random.Random(caller), itertools.count(caller, 1000)

        def ask(now: float) -> Arrival:
            return replace(self.arrival(tenant, next(numbers), now + pause(chance), chance), then=ask)

        return ask(0.0)


SHORT = Habit(name="short", prompts=(10, 40), output=16)
DOCUMENTS = Habit(name="documents", prompts=(220, 490), output=16)
LONG = Habit(name="long", prompts=(1200, 1700), output=16)
CHAT = Habit(name="chat", prompts=(33, 166), output=60, patience_s=20.0)
LONG_FLOOD = Habit(name="long", prompts=(1200, 1700), output=60, patience_s=60.0, callers=12)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A reader with its reading time and a flood of a number of tenants; either may be None."""

    reader: Habit
    flood: Habit | None
    tenants: int = 1
    looks_s: float = 0.3
    span_s: float = 300.0
    slots: int = 32
    shares_steps: bool = True
    """Behind a fair queue the tenants share the engine's steps."""

    def play(self, order: QueueOrder) -> "Played":
        shares = order is QueueOrder.FAIR and self.shares_steps
        bound = prompt_bound(CHUNK_TOKENS) if shares else 0
        size = EngineSize(
            max_seqs=self.slots,
            kv_blocks=4000,
            block_size=32,
            prefill_tokens=CHUNK_TOKENS,
            long_prefill_tokens=bound,
            preempts=shares,
        )
        most = round(self.slots * (1 + OVERBOOKED_PART)) if shares else self.slots
        engine = EngineModel(SMOLLM2_ONE_CORE, most, Stepping() if shares else None)
        arrivals = [self._reader(), *self._crowd()]
        records = run(arrivals, orders.make(order, size), engine, self.span_s)
        return Played(reader=records.pop(READER), crowd=list(records.values()))

    def _reader(self) -> Arrival:
        asking = self.reader.asking(READER, 1, lambda chance: self.looks_s * chance.uniform(0.5, 1.5))
        return replace(asking, at=FIRST_S)

    def _crowd(self) -> Iterator[Arrival]:
        if self.flood is not None and self.flood.callers:
            for caller in range(self.flood.callers):
                yield self.flood.asking(TenantId(f"crowd-{caller % self.tenants}"), caller, lambda _: 0.005)
        elif self.flood is not None:
            yield from crowd(self.flood, CROWD_PER_S, self.tenants, self.span_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    reader: TenantRecord
    crowd: list[TenantRecord]

    def ttft_s(self, q: float) -> float:
        """Return a quantile of the reader's TTFT, without its first requests."""
        return TenantRecord(ttft_s=self.reader.ttft_s[3:]).ttft_quantile(q)

    @property
    def answers(self) -> int:
        return sum(record.in_time for record in self.crowd)


def zipf(tenants: int) -> list[float]:
    """Return the shares of this number of tenants; the k-th has 1/k of the first's."""
    whole = sum(1 / k for k in range(1, tenants + 1))
    return [1 / k / whole for k in range(1, tenants + 1)]


def crowd(habit: Habit, per_s: float, tenants: int, span_s: float) -> Iterator[Arrival]:
    """Yield random requests at this rate over all tenants."""
    for rank, part in enumerate(zipf(tenants), start=1):
        tenant, chance, at = TenantId(f"crowd-{rank}"), random.Random(rank), 0.0
        for number in itertools.count(1):
            at += chance.expovariate(per_s * part)
            if at >= span_s:
                break
            yield habit.arrival(tenant, number, at, chance)


SCENES = (
    Scene(reader=DOCUMENTS, flood=CHAT, span_s=600.0),
    Scene(reader=SHORT, flood=CHAT),
    Scene(reader=LONG, flood=CHAT, span_s=600.0),
    Scene(reader=SHORT, flood=LONG_FLOOD, span_s=600.0),
    Scene(reader=DOCUMENTS, flood=LONG_FLOOD, span_s=600.0),
    Scene(reader=LONG, flood=LONG_FLOOD, span_s=900.0),
    Scene(reader=DOCUMENTS, flood=CHAT, tenants=7, looks_s=3.0, span_s=900.0),
    Scene(reader=DOCUMENTS, flood=CHAT, tenants=49, looks_s=20.0, span_s=3000.0),
    Scene(reader=DOCUMENTS, flood=CHAT, tenants=199, looks_s=60.0, span_s=6000.0),
)
"""What the table shows. Beside more tenants a reader asks less often: it stays within its share of the engine."""


def main() -> None:
    print("TTFT of a reader beside a flood, over its own alone; and answers that the flood got")
    heads = "".join(f"{order:>8} p50   p99 flood" for order in (QueueOrder.FAIR, QueueOrder.FIFO))
    print(f"{'reader':10} {'flood':18} {'tenants':>7} {'alone p50':>9}   p99 {heads}")
    for scene in SCENES:
        alone = replace(scene, flood=None).play(QueueOrder.FAIR)
        flood = scene.flood.name if scene.flood else ""
        row = f"{scene.reader.name:10} {flood:18} {scene.tenants + 1:>7}"
        row += f" {alone.ttft_s(0.5):>9.3f} {alone.ttft_s(0.99):.3f}"
        for order in (QueueOrder.FAIR, QueueOrder.FIFO):
            beside = scene.play(order)
            p50, p99 = (beside.ttft_s(q) / alone.ttft_s(q) for q in (0.5, 0.99))
            row += f" {p50:>11.2f} {p99:>5.2f} {beside.answers:>5}"
        print(row)


if __name__ == "__main__":
    main()
