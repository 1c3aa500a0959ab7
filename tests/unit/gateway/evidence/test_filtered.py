"""Answers that a safety pack ended, as evidence about their version."""

from dataclasses import replace

from penstock.domain.fleet.table import WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import Alias, RequestId, TenantId, WorkerId
from penstock.domain.outcome import FinishReason, Outcome, Stage
from penstock.domain.serving.shadow import Copy
from penstock.domain.tokens import Usage
from penstock.gateway.calls.call import Admitted, Answer
from penstock.gateway.evidence.counting import Arms, Shared
from penstock.gateway.routing.resolve import sticky_key
from tests.support.clock import ManualClock
from tests.support.samples import calls

WORKER = WorkerEntry(id=WorkerId("w1"), url="http://w1", state=WorkerState.READY)
FILTERED = Answer(
    outcome=Outcome.FILTERED,
    usage=Usage(prompt_tokens=100, output_tokens=5),
    itl_s=(0.02,),
    finish=FinishReason.CONTENT_FILTER,
)


def a_call(tenant: str, worker: WorkerEntry | None = WORKER) -> Admitted:
    call = calls.call(body={"model": "toy", "messages": []})
    call.attempts.worker = worker
    call.timings.put(Stage.PREFILL, 0.25)
    return replace(call, principal=replace(call.principal, tenant=TenantId(tenant)))


def test_filtered_answers_are_counted_beside_whole_ones(clock: ManualClock) -> None:
    """A caller's and a copy's: neither good nor bad, and no times; a refused prompt is no answer."""
    arms = Arms(
        clock, "g", "life", sticky=sticky_key, shared=lambda name: Shared(Alias(name), 2048), is_alias=lambda _: True
    )
    note = Copy(of=RequestId("r"), alias=Alias("toy"), tenant=TenantId("two"), sticky="two")
    arms.ended(a_call("one"), FILTERED)
    arms.ended(replace(a_call("_shadow"), copy=note), FILTERED)
    arms.ended(a_call("three"), replace(FILTERED, outcome=Outcome.OK, finish=FinishReason.STOP))
    arms.ended(a_call("four", None), FILTERED)
    second = arms.take()
    assert second is not None
    counts = [(arm.shown, arm.filtered, arm.good, arm.bad) for arm in second.arms]
    assert tuple(map(sum, zip(*counts, strict=True))) == (3, 2, 1, 0)
    assert {(one.tenant, one.what) for arm in second.arms for one in arm.worse} == {
        ("one", "filtered"),
        ("two", "filtered"),
    }
    assert sum(count for arm in second.arms for times in arm.ttft for _, count in times.counts) == 1
