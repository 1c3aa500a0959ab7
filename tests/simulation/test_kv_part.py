"""A tenant's part of the KV cache in virtual time: long contexts beside chats, with and without the bound."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

from loadtests import overload
from loadtests.simulator.engine import SMOLLM2_TWO_CORES, EngineModel
from loadtests.simulator.worker import Arrival, Worker
from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.engines.stepping import Stepping
from penstock.worker.gate.queueing.admission import AdmissionQueue
from penstock.worker.gate.queueing.constants import OVERBOOKED_PART
from penstock.worker.gate.queueing.work import Work

SIZE = replace(overload.SIZE, kv_blocks=300, preempts=True)
"""9,600 tokens: eight long contexts, with slots for 24 more requests."""
PART, SPAN_S = 0.5, 240.0
LONG, CHATS = TenantId("long"), tuple(TenantId(f"chat{number}") for number in range(4))


def arrivals(kv_part: float) -> Iterator[Arrival]:
    """Yield a flood of contexts of 1,100 tokens, and chats that ask now and then."""
    chance = random.Random(7)
    for number in range(int(SPAN_S * 2)):
        yield arrival(LONG, number, number / 2.0, 700, 400, kv_part)
    at = 0.0
    for number in range(10_000):
        at += chance.expovariate(1.5)
        if at < SPAN_S:
            yield arrival(chance.choice(CHATS), number, at, 60, 1 + int(chance.expovariate(1 / 60)))


def arrival(tenant: TenantId, number: int, at: float, prompt: int, output: int, kv_part: float = 0.0) -> Arrival:
    work = Work(
        request=RequestId(f"{tenant}/{number}"),
        tenant=tenant,
        standing=Standing.PAID,
        weight=1.0,
        prompt_tokens=prompt,
        expected_output_tokens=output,
        kv_part=kv_part,
    )
    return Arrival(at=at, work=work, output_tokens=output)


def played(kv_part: float) -> tuple[float, float, float]:
    """Return the chats' p99 TTFT, the largest part of the KV blocks that the long contexts held, and their answers a
    second.
    """
    queue = AdmissionQueue(SIZE)
    engine = EngineModel(SMOLLM2_TWO_CORES, max_seqs=round(overload.SLOTS * (1 + OVERBOOKED_PART)), stepping=Stepping())
    worker, most = Worker(queue, engine), 0.0
    for one in arrivals(kv_part):
        worker.expect(one)
    for second in range(1, int(4 * SPAN_S)):
        worker.run(second / 4)
        most = max(most, queue.slots.held_by(LONG).blocks / SIZE.usable)
    chats = sorted(ttft_s for name in CHATS for ttft_s in worker.records[name].ttft_s)
    return chats[int(0.99 * len(chats))], most, len(worker.records[LONG].ttft_s) / SPAN_S


def test_long_contexts_keep_to_their_part_and_chats_do_not_wait_for_them(
    record_property: Callable[[str, object], None],
) -> None:
    """Bounded to half of the KV cache a flood of long contexts holds no more, chats wait a third as long at most, and
    the flood still gets three quarters of the answers that it had unbounded.
    """
    (p99_s, held, served), (free_p99_s, free_held, free_served) = played(PART), played(0.0)
    record_property("bound", {"p99_s": p99_s, "held": held, "long_per_s": served})
    record_property("free", {"p99_s": free_p99_s, "held": free_held, "long_per_s": free_served})
    assert held <= PART < free_held
    assert p99_s < free_p99_s / 3
    assert served > 0.75 * free_served
