"""What error budgets leave out: the ends that the gateway's own metric takes for their callers' doing."""

from dataclasses import replace

import pytest

from penstock.domain.errors import Overloaded
from penstock.domain.ids import Alias, RequestId, TenantId
from penstock.domain.outcome import TENANT_QUEUE, Outcome
from penstock.domain.serving.shadow import Copy
from penstock.domain.tenancy.ledger import Forgiven
from penstock.domain.tokens import UNKNOWN
from penstock.gateway.billing.closing import ForgivenEnds
from penstock.gateway.calls.call import Admitted, Answer
from penstock.gateway.calls.doubt import Doubt
from tests.support.clock import ManualClock
from tests.support.samples import calls
from tests.unit.gateway.billing.test_closing import Desk

HOUR = 3600.0


def failed() -> Admitted:
    """Return a call that an engine failed, and of which nobody knows yet whose doing that is."""
    call = calls.call()
    call.attempts.doubt = Doubt()
    return call


def ended(outcome: Outcome) -> Answer:
    return Answer(outcome=outcome, usage=UNKNOWN)


def own(hour: int, outcome: Outcome = Outcome.ENGINE_ERROR, requests: int = 1) -> Forgiven:
    return Forgiven(hour=hour, version=calls.VERSION.id, outcome=outcome, requests=requests)


async def test_a_failure_is_forgiven_when_its_worker_has_passed_the_probe(clock: ManualClock) -> None:
    """The word comes seconds after the row, and counts in the hour in which the request ended."""
    ends, call, hour = ForgivenEnds(clock), failed(), int(clock.now() // HOUR)
    assert call.attempts.doubt is not None
    ends.closed(call, ended(Outcome.ENGINE_ERROR))
    assert ends.take() == ()
    clock.advance(HOUR)
    call.attempts.doubt.settle(is_own=True)
    assert ends.take() == (own(hour),)
    assert ends.take() == ()


@pytest.mark.parametrize("outcome", list(Outcome))
@pytest.mark.parametrize("is_own", [True, False])
def test_it_is_the_word_of_the_tiers_metric(clock: ManualClock, outcome: Outcome, *, is_own: bool) -> None:
    """Whatever a promise counts as the caller's is forgiven, and nothing else."""
    ends, call, told = ForgivenEnds(clock), failed(), list[Outcome]()
    assert call.attempts.doubt is not None
    call.attempts.doubt.settle(is_own=is_own)
    ends.closed(call, ended(outcome))
    call.tell_outcome(ended(outcome), told.append)
    is_forgiven = outcome.spends_error_budget and not told[0].spends_error_budget
    assert len(ends.take()) == is_forgiven


def test_a_tenants_own_queue_needs_no_forgiving(clock: ManualClock) -> None:
    """A full queue of one tenant's own is its limit's refusal in the row itself: there is nothing to forgive."""
    ends, call = ForgivenEnds(clock), calls.call()
    answer = Answer.refused(Overloaded(reason=TENANT_QUEUE), UNKNOWN)
    ends.closed(call, answer)
    assert (answer.outcome, ends.take()) == (Outcome.OVER_LIMIT, ())


def test_what_could_not_be_told_is_told_later(clock: ManualClock) -> None:
    """Counts that come back are added to those that came meanwhile."""
    ends, hour = ForgivenEnds(clock), int(clock.now() // HOUR)
    ends.put_back([own(hour, requests=3), own(hour - 1)])
    call = failed()
    assert call.attempts.doubt is not None
    call.attempts.doubt.settle(is_own=True)
    ends.closed(call, ended(Outcome.ENGINE_ERROR))
    assert ends.take() == (own(hour, requests=4), own(hour - 1))


async def test_each_row_that_is_written_is_looked_at(clock: ManualClock) -> None:
    """The desk that writes the row tells; a copy's row is in no budget, so nothing of it is left out."""
    desk = Desk(clock)
    failure = Answer(outcome=Outcome.ENGINE_ERROR, usage=UNKNOWN)
    desk.call.attempts.doubt = Doubt()
    desk.call.attempts.doubt.settle(is_own=True)
    desk.close(failure)
    assert desk.forgiven.take() == (own(int(clock.now() // HOUR)),)
    desk.call = replace(
        desk.call, copy=Copy(of=RequestId("r"), alias=Alias("toy"), tenant=TenantId("acme"), sticky="acme")
    )
    desk.closing.close(desk.call, failure)
    assert desk.forgiven.take() == ()
