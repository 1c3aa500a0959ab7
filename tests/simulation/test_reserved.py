"""Reserved capacity in virtual time: a tenant that slept finds its part of the engine in the middle of a flood."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

from loadtests import overload
from loadtests.simulator.engine import SMOLLM2_TWO_CORES, EngineModel
from loadtests.simulator.worker import Arrival, TenantRecord, run
from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.engines.stepping import Stepping
from penstock.worker.gate.queueing.admission import AdmissionQueue
from penstock.worker.gate.queueing.constants import OVERBOOKED_PART
from penstock.worker.gate.queueing.work import Work

PART, SLOTS = 0.25, 8
"""A quarter of the engine's 32 slots."""
BURST_EVERY_S, SPAN_S = 45.0, 240.0
"""Longer than a silent tenant counts as active: only the reservation keeps anything for it."""
SLEEPER = TenantId("sleeper")


def arrivals(reserved: float) -> Iterator[Arrival]:
    """Yield a flood of long answers of five tenants, and the sleeper's bursts of as many requests as it has slots."""
    chance = random.Random(4)
    for number in range(int(SPAN_S * 15)):
        yield arrival(f"flood{number % 5}", number, number / 15.0, 1 + int(chance.expovariate(1 / 150)))
    for burst in range(1, int(SPAN_S // BURST_EVERY_S) + 1):
        for number in range(SLOTS):
            yield arrival(SLEEPER, 1000 * burst + number, burst * BURST_EVERY_S, 60, reserved)
    yield arrival(SLEEPER, 0, 0.0, 10, reserved)


def arrival(tenant: str, number: int, at: float, output: int, reserved: float = 0.0) -> Arrival:
    work = Work(
        request=RequestId(f"{tenant}/{number}"),
        tenant=TenantId(tenant),
        standing=Standing.PAID,
        weight=1.0,
        prompt_tokens=60,
        expected_output_tokens=output,
        reserved=reserved,
    )
    return Arrival(at=at, work=work, output_tokens=output)


def sleeper(reserved: float) -> tuple[TenantRecord, float]:
    """Return what the sleeper experienced, and the tokens of service per second that the engine did for all."""
    queue = AdmissionQueue(replace(overload.SIZE, preempts=True))
    engine = EngineModel(SMOLLM2_TWO_CORES, max_seqs=round(overload.SLOTS * (1 + OVERBOOKED_PART)), stepping=Stepping())
    records = run(arrivals(reserved), queue, engine, SPAN_S)
    return records[SLEEPER], sum(record.service for record in records.values()) / SPAN_S


def test_a_reserving_tenant_gets_its_seats_within_a_bound(record_property: Callable[[str, object], None]) -> None:
    """Each of a burst of as many requests as it has slots starts within 2.5 seconds beside floods of long answers,
    and what is kept free for that costs less than a tenth of the engine's work.
    """
    (with_part, service), (without, whole) = sleeper(PART), sleeper(0.0)
    record_property("worst_ttft_s", {"reserved": max(with_part.ttft_s), "not": max(without.ttft_s)})
    record_property("service_per_s", {"reserved": service, "not": whole})
    assert len(with_part.ttft_s) == 1 + SLOTS * 5
    assert max(with_part.ttft_s) < 2.5
    assert max(without.ttft_s) > 1.75 * max(with_part.ttft_s)
    assert service > 0.9 * whole
