"""The ticket of an admitted call: what its worker is told of it."""

from dataclasses import replace

from penstock.domain.ids import NO_VERSION, TenantId
from penstock.domain.serving.ticket import Ticket
from penstock.domain.tenancy.standing import Standing
from penstock.domain.tenancy.tenant import SHADOWS, BatchYield
from penstock.gateway.calls.call import Admitted, Call
from penstock.gateway.calls.relay import Rest


def ticket_of(call: Admitted, clocks_apart: float) -> Ticket:
    plan, cost, lease = call.principal.plan, call.cost, call.lease
    return Ticket(
        request=call.request.id,
        tenant=queues_as(call),
        standing=call.standing,
        weight=plan.weight,
        reserved=plan.reserved,
        kv_part=plan.kv_part,
        kv_waits=call.attempts.is_over_kv or not _may_be_degraded(call),
        deadline_at=clocks_apart + lease.deadline_at,
        start_by=lease.start_by and clocks_apart + lease.start_by,
        prompt_tokens=cost.prompt_tokens,
        expected_output_tokens=min(lease.expected_output, cost.output_tokens),
        prompts=cost.prompts,
        sequences=cost.sequences,
        work_tokens=cost.work_tokens,
        promise=lease.promise,
        yields=call.standing is Standing.BATCH and plan.batch_yield is BatchYield.STRICT,
        adapter=call.version.id if call.version.base else NO_VERSION,
    )


def of_rest(ticket: Ticket, rest: Rest) -> Ticket:
    """Delivered tokens count as prompt, and the request has started."""
    expected = min(rest.output_tokens, ticket.expected_output_tokens)
    return replace(
        ticket, prompt_tokens=rest.prompt_tokens, expected_output_tokens=expected, start_by=0.0, kv_waits=True
    )


def queues_as(call: Call) -> TenantId:
    """Return the tenant's queue at the worker; a shadow copy has its own."""
    return call.principal.tenant if call.copy is None else TenantId(f"{SHADOWS}/{call.copy.tenant}")


def _may_be_degraded(call: Admitted) -> bool:
    plan = call.principal.plan
    return call.copy is None and not call.degraded and bool(plan.degrade_output_tokens or plan.degrade_model)
