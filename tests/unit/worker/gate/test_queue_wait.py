"""What a refused request is told of the queue that it met."""

import asyncio
from dataclasses import replace

import pytest

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.serving.ticket import GIVEN_UP_S
from penstock.domain.tenancy.standing import Standing
from penstock.telemetry import names
from penstock.worker.gate.asgi import Message
from penstock.worker.gate.corridor import Gate
from penstock.worker.gate.queue_wait import QueueWait
from penstock.worker.gate.queueing.admission import AdmissionQueue, Shed
from penstock.worker.gate.queueing.fair_queue import Bounds
from penstock.worker.gate.queueing.slots import EngineSize
from penstock.worker.gate.queueing.work import Work
from tests.support.clock import ManualClock
from tests.unit.worker.gate.test_corridor import CONFIG, TICKET, Client, Engine, sample

SIZE = EngineSize(max_seqs=1, kv_blocks=400, block_size=16, watermark=0.0, prefill_tokens=10_000)
WORK = Work(
    request=RequestId("r"),
    tenant=TenantId("flood"),
    standing=Standing.PAID,
    weight=1.0,
    prompt_tokens=10,
    expected_output_tokens=10,
)


async def _never() -> Message:
    raise AssertionError("who is refused at once is not listened to")


@pytest.mark.parametrize(("who", "reason"), [("flood", "tenant_queue"), ("another", None)])
async def test_who_is_refused_for_its_own_queue_hears_that(who: str, reason: str | None) -> None:
    """A refusal that no other tenant has any part in is no lack of capacity, and says so; another's is one."""
    queue = AdmissionQueue(SIZE, bounds=Bounds(tenant_requests=1, total_requests=1))
    for name in ("inside", "waiting"):
        queue.arrive(replace(WORK, request=RequestId(name)), 0.0, lambda: None, lambda *_: None)
    rejection = await QueueWait(queue, replace(WORK, tenant=TenantId(who)), _never, lambda: 0.0).until_admitted()
    assert rejection is not None
    assert (rejection.why, rejection.fields["reason"]) == (Shed.FULL, reason)


async def _silent() -> Message:
    await asyncio.get_running_loop().create_future()
    raise AssertionError("nothing ever comes")


@pytest.mark.parametrize(("time_shares", "reason"), [(True, "tenant_queue"), (False, None)])
async def test_who_waits_for_its_own_tenant_until_its_time_is_over_hears_that(
    time_shares: bool, reason: str | None
) -> None:
    """S6: where tenants take turns inside, nobody else is in its way; it hears so before its gateway gives up."""
    queue = AdmissionQueue(replace(SIZE, time_shares=time_shares))
    queue.arrive(replace(WORK, request=RequestId("inside")), 0.0, lambda: None, lambda *_: None)
    wait = QueueWait(queue, replace(WORK, deadline_at=GIVEN_UP_S + 0.01), _silent, lambda: 0.0)
    rejection = await wait.until_admitted()
    assert rejection is not None
    assert (rejection.why, rejection.fields["reason"]) == (Shed.LATE, reason)


async def test_what_one_tenant_floods_is_told_from_overload(clock: ManualClock) -> None:
    """Each retry of one caller was one more request of a queue that seemed to be too small for all."""
    gate = Gate(Engine(), replace(CONFIG, max_num_seqs=1), clock)
    gate.queue = AdmissionQueue(SIZE, bounds=Bounds(tenant_requests=1, total_requests=1))
    for name in ("inside", "waiting"):
        work = replace(WORK, request=RequestId(name), tenant=TICKET.tenant)
        gate.queue.arrive(work, clock.monotonic(), lambda: None, lambda *_: None)
    for tenant in (TICKET.tenant, TICKET.tenant, TenantId("another")):
        client = Client(gate)
        await client.call(ticket=replace(TICKET, tenant=tenant))
        assert client.headers["x-penstock-refused"] == "overloaded"
    assert sample(gate, names.DOOR_SHED, standing="paid", reason="tenant_queue") == 2
    assert sample(gate, names.DOOR_SHED, standing="paid", reason="overloaded") == 1


async def test_a_tenant_beyond_its_part_of_the_kv_cache_hears_so_only_if_it_would_be_degraded() -> None:
    """That refusal is for its gateway; where it waits, the reason of a late refusal is its own queue."""
    queue = AdmissionQueue(replace(SIZE, max_seqs=4))
    inside = replace(WORK, request=RequestId("inside"), kv_part=0.004)
    queue.arrive(inside, 0.0, lambda: None, lambda *_: None)
    for waits, why, reason in ((False, Shed.KV_PART, "tenant_kv"), (True, Shed.LATE, "tenant_queue")):
        work = replace(inside, request=RequestId("next"), kv_waits=waits, deadline_at=GIVEN_UP_S + 0.01)
        rejection = await QueueWait(queue, work, _silent, lambda: 0.0).until_admitted()
        assert rejection is not None
        assert (rejection.why, rejection.fields["reason"]) == (why, reason)
