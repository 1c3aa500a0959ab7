"""What a worker is told of a request."""

from dataclasses import replace

import pytest

from penstock.domain.errors import EngineError
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.ids import NO_VERSION, Alias, RequestId, TenantId
from penstock.domain.outcome import Degradation
from penstock.domain.serving.request import Api
from penstock.domain.serving.shadow import Copy
from penstock.domain.serving.slo import TimedPromise
from penstock.domain.serving.ticket import Ticket
from penstock.domain.tenancy.cost import Cost
from penstock.domain.tenancy.tenant import BatchYield, Plan, Priority
from penstock.gateway.calls.call import Admitted
from penstock.gateway.calls.relay import Rest
from penstock.gateway.calls.ticketing import of_rest, queues_as, ticket_of
from tests.support.samples import adapter_versions, calls

COPY = Copy(of=RequestId("r"), alias=Alias("toy"), tenant=TenantId("acme"), sticky="acme")
OPTED_IN = Plan(kv_part=0.25, degrade_output_tokens=20)


def test_copies_queue_apart_as_their_originals_do_and_as_no_tenant() -> None:
    """One tenant of all copies would fill a step with prompts that met one another one by one at the incumbent."""
    own, copy = calls.call(), replace(calls.call(), copy=COPY)
    assert (queues_as(own), queues_as(copy)) == ("acme", "_shadow/acme")


def ticket(version: VersionEntry) -> Ticket:
    return ticket_of(replace(calls.call(), version=version), 0.0)


def test_the_ticket_names_the_adapter_and_of_other_versions_none() -> None:
    """The gate has to know it without reading the body, and a base's requests want none."""
    assert ticket(adapter_versions.entry()).adapter == adapter_versions.entry().id
    assert ticket(calls.VERSION).adapter == NO_VERSION


@pytest.mark.parametrize(
    ("plan", "waits"),
    [(Plan(kv_part=0.25), True), (OPTED_IN, False), (Plan(kv_part=0.25, degrade_model=Alias("small")), False)],
)
def test_a_tenant_that_accepts_a_lesser_answer_does_not_wait_for_its_part_of_the_kv_cache(
    plan: Plan, *, waits: bool
) -> None:
    """The ticket carries the plan's part, and whether the request waits beyond it."""
    made = ticket_of(calls.call(plan=plan), 0.0)
    assert (made.kv_part, made.kv_waits) == (0.25, waits)


@pytest.mark.parametrize(
    ("priority", "batch_yield", "yields"),
    [
        (Priority.BATCH, BatchYield.STRICT, True),
        (Priority.BATCH, BatchYield.SHARE, False),
        (Priority.STANDARD, BatchYield.STRICT, False),
    ],
)
def test_batch_requests_alone_stand_still_as_the_plan_says(
    priority: Priority, batch_yield: BatchYield, *, yields: bool
) -> None:
    """A tenant's live requests run, whatever its plan says of its batch work."""
    assert ticket_of(calls.call(plan=Plan(priority=priority, batch_yield=batch_yield)), 0.0).yields == yields


def test_the_ticket_carries_the_leases_promise() -> None:
    """It is that of the request's tier."""
    call = calls.call()
    call.lease.promise = TimedPromise(first_s=2.0, each_s=0.3, late_ratio=0.1)
    assert ticket_of(call, 0.0).promise == call.lease.promise


def test_a_request_waits_for_that_part_once_it_is_degraded_refused_continued_or_a_copy() -> None:
    """Each request is refused for it once at most, and none that could not be degraded any more."""
    refused, fresh = calls.call(plan=OPTED_IN), calls.call(plan=OPTED_IN)
    refused.attempts.is_over_kv = True
    capped = replace(calls.call(plan=OPTED_IN), degraded=(Degradation.OUTPUT_CAPPED,))
    later: list[Admitted] = [refused, capped, replace(fresh, copy=COPY)]
    assert [ticket_of(one, 0.0).kv_waits for one in later] == [True, True, True]
    rest = Rest(api=Api.CHAT, body={}, prompt_tokens=5, output_tokens=5, error=EngineError())
    assert of_rest(ticket_of(fresh, 0.0), rest).kv_waits


def test_a_capped_request_is_booked_by_its_cap() -> None:
    """Its lease was opened for the longer answer, and its worker counts KV blocks for the shorter one."""
    call = calls.call(cost=Cost(output_tokens=20))
    call.lease.expected_output = 100
    assert ticket_of(call, 0.0).expected_output_tokens == 20
