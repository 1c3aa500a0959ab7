"""Lists of long texts beside another tenant's single short ones, in virtual time: the real queue, the real batcher."""

import itertools
import random
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from loadtests.simulator.batches import Arrival, Bench, ServedBatch
from penstock.domain.ids import ModelName, RequestId, TenantId, WorkerId
from penstock.domain.models.model import EngineSettings, Manifest, Provenance, Task, Tier
from penstock.domain.money import MicroUsd, Price
from penstock.domain.serving.ticket import Ticket
from penstock.domain.tenancy.standing import Standing
from penstock.packaging.demo_models import MINILM_TORCH
from penstock.worker.batching.compute import Computes
from penstock.worker.batching.items import Item, Key, Waiting
from penstock.worker.batching.policy import BESIDE_PART, BatchDecision, DeviceState, Policy
from penstock.worker.batching.settings import BatchSettings
from penstock.worker.engines.plan import for_engine
from penstock.worker.gate.work import queue_of, work_of
from penstock.worker.gate_config import GateConfig
from tests.support.samples.batches import KEY, item
from tests.support.variants import drilled

Note = Callable[[str, object], None]
SHORT, LONG = replace(KEY, bucket=16), replace(KEY, bucket=256)
FLOOD, VICTIM = TenantId("flood"), TenantId("victim")
SETTINGS = BatchSettings(max_items=32, slo_s=0.25)
LIST = 32
FREE = MicroUsd(0)
MANIFEST = Manifest(
    name=ModelName("toy"),
    task=Task.EMBED,
    tier=Tier.EMBEDDING,
    files=(),
    price=Price(prompt_per_mtok=FREE, cached_per_mtok=FREE, output_per_mtok=FREE),
    provenance=Provenance(origin="", licence=""),
    engine=EngineSettings(max_model_len=256, max_num_seqs=64, max_num_batched_tokens=16_384),
    handler=MINILM_TORCH.choices.handler,
)


def took(key: Key, size: int, _: float) -> float:
    """Return what MiniLM takes on one core, as it was measured: a long text gains nothing by company."""
    return 0.006 + 0.004 * size if key == SHORT else 0.001 + 0.070 * size


class Site:
    """One worker of MiniLM: requests before its queue, their items in its batcher."""

    def __init__(self, settings: BatchSettings = SETTINGS) -> None:
        config = GateConfig(worker=WorkerId("w"), version=KEY.version, ticket_key="", max_num_seqs=1)
        self.queue = queue_of(for_engine(config, MANIFEST))
        computes = Computes(settings.prior, settings.max_items)
        self.policy = Policy(settings, computes)
        self.bench = Bench(self, settings, took, computes, after=self.after)
        self.numbers = itertools.count()
        self.coming: list[Item] = []
        self.rest: dict[RequestId, deque[Item]] = {}
        self.left: dict[RequestId, int] = {}
        self.came: dict[RequestId, float] = {}
        self.seconds: defaultdict[TenantId, list[float]] = defaultdict(list)

    # -- as the bench sees it ----------------------------------------------------------------

    def come(self, waiting: Waiting) -> None:
        """A request's template comes to the queue, an item that was let in to the batcher."""
        if waiting.item.payload is not None:
            self.policy.come(waiting)
            return
        self.ask(waiting.item, 1, waiting.came_at)
        for one in self.taken():
            self.policy.come(Waiting(one, waiting.came_at))

    def expire(self, now: float) -> list[Waiting]:
        return self.policy.expire(now)

    def decide(self, now: float, device: DeviceState) -> BatchDecision:
        return self.policy.decide(now, device)

    # -- the queue ------------------------------------------------------------------------------

    def ask(self, template: Item, items: int, now: float) -> None:
        tenant, name = template.tenant, RequestId(f"{template.tenant}/{next(self.numbers)}")
        ticket = Ticket(
            request=name,
            tenant=tenant,
            standing=Standing.INTERACTIVE,
            weight=1,
            deadline_at=now + 30.0,
            prompt_tokens=items * template.cost,
            expected_output_tokens=0,
            prompts=items,
            sequences=items,
        )
        work = work_of(ticket, name, self.queue.slots.size, clocks_apart=0.0, now=now)
        self.left[name], self.came[name] = items, now
        self.rest[name] = deque(replace(template, payload=name) for _ in range(items))
        self.queue.arrive(work, now, lambda: self.enter(name, work.sequences), lambda *_: None)

    def enter(self, name: RequestId, at_once: int) -> None:
        self.coming += [self.rest[name].popleft() for _ in range(at_once)]

    def taken(self) -> list[Item]:
        taken, self.coming = self.coming, []
        return taken

    def after(self, served: ServedBatch) -> Iterable[Item]:
        """A batch has ended: lists go on with their next items; the flood's callers ask again."""
        now = served.ended_at
        for one in served.taken:
            name = RequestId(str(one.item.payload))
            self.queue.progressed(name, 0, now)
            self.left[name] -= 1
            if self.rest[name]:
                self.coming.append(self.rest[name].popleft())
            if not self.left[name]:
                self.queue.leave(name, now)
                self.seconds[one.item.tenant].append(now - self.came[name])
                if one.item.tenant == FLOOD:
                    self.ask(replace(one.item, payload=None), LIST, now)
        return self.taken()


def victims(per_s: float, until: float, chance: random.Random) -> list[Arrival]:
    gaps = (chance.expovariate(per_s) for _ in itertools.count())
    at = itertools.takewhile(lambda at: at < until, itertools.accumulate(gaps))
    return [Arrival(each, item(VICTIM, key=SHORT, cost=SHORT.bucket)) for each in at]


def waits(callers: int, flood: Key) -> list[float]:
    """Return a victim's seconds beside ``callers`` of lists, sorted, once it is known."""
    site = Site()
    for _ in range(callers):
        site.ask(item(FLOOD, key=flood, cost=flood.bucket), LIST, 0.0)
    begun = [Arrival(0.0, one) for one in site.taken()]
    site.bench.play(begun + victims(5.0, 120.0, random.Random(3)), until=120.0)
    return sorted(site.seconds[VICTIM][20:])


def p99(seconds: list[float]) -> float:
    return seconds[int(0.99 * len(seconds))]


@pytest.mark.parametrize(("callers", "flood"), [(16, LONG), *drilled([(4, LONG), (8, LONG), (4, SHORT), (16, SHORT)])])
def test_a_victim_waits_for_what_has_begun_alone(callers: int, flood: Key, record_property: Note) -> None:
    """Beside lists of long texts a short one's p99 is its lone one, one long text and a small batch, however many."""
    alone, beside = waits(0, flood), waits(callers, flood)
    a_part_s = BESIDE_PART * SETTINGS.slo_s
    record_property("p99", {"alone": p99(alone), "beside": p99(beside)})
    sys.stdout.write(f"{callers} of {flood.bucket}: alone {p99(alone):.4f} s, beside {p99(beside):.4f} s\n")
    assert len(beside) >= len(alone) - 1
    assert p99(beside) <= p99(alone) + max(took(flood, 1, 0.0), a_part_s) + a_part_s


def test_a_flood_of_long_texts_loses_nothing_by_its_neighbour(record_property: Note) -> None:
    """Its lists get nine tenths of the device: what has begun is small, and nothing is left unused."""
    site = Site()
    for _ in range(4):
        site.ask(item(FLOOD, key=LONG, cost=LONG.bucket), LIST, 0.0)
    begun = [Arrival(0.0, one) for one in site.taken()]
    played = site.bench.play(begun + victims(5.0, 60.0, random.Random(3)), until=60.0)
    done = sum(one.item.tenant == FLOOD for batch in played.batches for one in batch.taken)
    record_property("items", done)
    assert done >= 0.9 * 60.0 / took(LONG, 1, 0.0)
