"""One end of a request has one name, in every place that names ends."""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from penstock.apps import slos
from penstock.domain.errors import Overloaded, PenstockError
from penstock.domain.outcome import ADAPTER_LOADING, POOL_PINNED, TENANT_QUEUE, Outcome
from penstock.domain.serving.request import Api
from penstock.domain.serving.request_record import RequestRecord
from penstock.domain.serving.slo import Pace
from penstock.domain.tenancy.credentials import Claim
from penstock.domain.tenancy.ledger import Opening, close
from penstock.domain.tokens import Usage
from penstock.explain import story
from penstock.explain.judging import judged
from penstock.gateway.calls.call import Answer, Call
from penstock.gateway.calls.doubt import Doubt
from penstock.gateway.calls.lease import Lease
from penstock.gateway.records.making import Early, Records, refused_early
from penstock.gateway.records.requests import RequestLedger
from penstock.gateway.records.traces import _facts
from penstock.telemetry.metrics import Metrics
from tests.support.clock import ManualClock
from tests.support.samples import calls

REASONS = (None, TENANT_QUEUE, ADAPTER_LOADING, POOL_PINNED, "tenant_requests")


def errors(kind: type[PenstockError] = PenstockError) -> Iterator[type[PenstockError]]:
    """Yield the errors that gateways know: a worker's own are no gateway's, whichever tests imported them."""
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == PenstockError.__module__ or child.__module__.startswith("penstock.gateway"):
            yield from errors(child)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The names that one end got, by their places."""

    names: dict[str, str]
    is_ours: bool
    explained: str


def told_of(call: Call, answer: Answer, log: io.StringIO, clock: ManualClock, *, own: bool | None = None) -> Told:
    metrics, kept = Metrics(), list[RequestRecord]()
    ledger = RequestLedger(
        metrics, clock.monotonic, keep=Records(kept.append, slos.load(), clock, crowd=kept.append).ended
    )
    answer = call.named(answer)
    ledger.record(call, answer)
    if own is not None and call.attempts.doubt is not None:
        call.attempts.doubt.settle(is_own=own)
    page = metrics.exposition().decode().splitlines()
    (record,) = kept
    row = close(opening(call), answer.outcome, answer.usage, gpu_s=0.0, now=1.0)
    counted = {
        series: one.split('outcome="')[1].split('"')[0]
        for series in ("penstock_requests_total", "penstock_tier_requests_total")
        for one in page
        if one.startswith(series) and one.endswith(" 1.0")
    }
    names = counted | {
        "record": record.outcome,
        "row": row.outcome,
        "log": json.loads(log.getvalue().splitlines()[-1])["outcome"],
        "trace": str(_facts(call, answer)["penstock.outcome"]),
    }
    assert len(names) == 6
    return Told(names=names, is_ours=any(not one.is_good for one in judged(record)), explained=story.tell(record)[0])


def opening(call: Call) -> Opening:
    version = calls.VERSION
    return Opening(
        request=call.request.id,
        tenant=call.principal.tenant,
        key=call.principal.key,
        version=version.id,
        digest=version.digest,
        api=call.request.api.value,
        priority=call.principal.plan.priority,
        prompt_tokens=1,
        price=version.price,
        opened_at=0.0,
    )


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("kind", sorted(set(errors()), key=str))
@pytest.mark.parametrize("own_deadline", [False, True])
def test_every_refusal_has_one_name(
    log: io.StringIO, clock: ManualClock, kind: type[PenstockError], reason: str | None, *, own_deadline: bool
) -> None:
    """Metrics, promises, ledger, record, log, trace and explanation name every error for every reason alike."""
    error = kind(reason=reason)
    call = calls.call()
    lease = Lease(opened_at=0.0, deadline_at=0.001)
    call = replace(call, own_deadline=own_deadline, pace=Pace(first_s=1.0), lease=lease)
    told = told_of(call, Answer.refused(error, Usage()), log, clock)
    assert len(set(told.names.values())) == 1, told.names
    name = Outcome(told.names["row"])
    assert f" as {name} after" in told.explained
    assert told.is_ours == name.spends_error_budget


def test_a_refusal_before_its_body_has_the_same_name(log: io.StringIO, clock: ManualClock) -> None:
    """A request that was never read is named in metric, log and record as one that was."""
    metrics, kept = Metrics(), list[RequestRecord]()
    ledger = RequestLedger(metrics, clock.monotonic)
    error = Overloaded(reason=TENANT_QUEUE)
    call = calls.call()
    early = Early(call.request.id, Claim(call.principal.tenant, call.principal.key), Api.CHAT, 0.0, {})
    refused_early(Records(kept.append, slos.load(), clock, crowd=kept.append), ledger)(error, early)
    ledger.refused(error, call.request.id)
    assert 'penstock_early_refusals_total{outcome="over_limit",tenant="acme"} 1.0' in metrics.exposition().decode()
    assert json.loads(log.getvalue().splitlines()[-1])["outcome"] == "over_limit"
    assert [one.outcome for one in kept] == ["over_limit"]


@pytest.mark.parametrize(("own", "name"), [(True, "bad_request"), (False, "engine_error")])
def test_a_doubted_end_is_counted_once_it_is_known(
    log: io.StringIO, clock: ManualClock, name: str, *, own: bool
) -> None:
    """The engine's error is counted under one name in both metrics, when the probe has told whose fault it was."""
    call = calls.call()
    call.attempts.doubt = Doubt()
    told = told_of(call, Answer(outcome=Outcome.ENGINE_ERROR, usage=Usage()), log, clock, own=own)
    assert {told.names["penstock_requests_total"], told.names["penstock_tier_requests_total"]} == {name}
