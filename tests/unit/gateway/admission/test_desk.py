import pytest

from penstock.domain.errors import DeadlineUnreachable, InvalidField, OverLimit
from penstock.domain.model import Tier
from penstock.domain.outcome import Outcome
from penstock.domain.request import Api, Prepared
from penstock.domain.tenant import Plan
from penstock.domain.tokens import Usage
from penstock.gateway.admission.desk import Desk, bounded
from penstock.gateway.admission.limiter import ConcurrencyLimiter
from penstock.gateway.pipeline import Admission
from tests.support import calls
from tests.support.clock import ManualClock

PREPARED = Prepared(prompt_tokens=5)


class Counted:
    def __init__(self, clock: ManualClock) -> None:
        self.in_flight: dict[str, int] = {}
        self.limiter = ConcurrencyLimiter()
        self.desk: Admission = Desk(
            limiter=self.limiter,
            default_deadline_s={Tier.CHAT: 60.0, Tier.EMBEDDING: 5.0},
            now=clock.monotonic,
            in_flight=self.count,
        )

    def count(self, model: str, change: int) -> None:
        self.in_flight[model] = self.in_flight.get(model, 0) + change


@pytest.mark.parametrize(
    ("client_s", "plan_s", "deadline_at"), [(0, 0, 60), (10, 0, 10), (0, 20, 20), (30, 20, 20), (90, 80, 60)]
)
def test_the_nearest_deadline_counts(clock: ManualClock, client_s: float, plan_s: float, deadline_at: float) -> None:
    """Client, plan and tier each may shorten the deadline, and none may lengthen it."""
    lease = Counted(clock).desk.admit(calls.call(deadline_s=client_s, plan=Plan(deadline_s=plan_s)), PREPARED)
    assert lease.deadline_at == deadline_at


def test_a_deadline_counts_from_arrival(clock: ManualClock) -> None:
    """A request whose deadline passed while it was read never starts, and holds nothing."""
    parts = Counted(clock)
    clock.advance(2.0)
    with pytest.raises(DeadlineUnreachable) as caught:
        parts.desk.admit(calls.call(deadline_s=1.5), PREPARED)
    assert caught.value.retry_after_s
    assert (parts.limiter.running(calls.principal().tenant), parts.in_flight) == (0, {})


def test_what_a_lease_holds_comes_back_once(clock: ManualClock) -> None:
    """Settling frees slot and gauge; settling again changes nothing."""
    parts = Counted(clock)
    tenant = calls.principal().tenant
    lease = parts.desk.admit(calls.call(plan=Plan(max_concurrent=1)), PREPARED)
    assert (parts.limiter.running(tenant), parts.in_flight) == (1, {"toy": 1})
    with pytest.raises(OverLimit):
        parts.desk.admit(calls.call(plan=Plan(max_concurrent=1)), PREPARED)
    assert lease.settle(Outcome.OK, Usage(), 3.0)
    assert not lease.settle(Outcome.OK, Usage(), 4.0)
    assert (parts.limiter.running(tenant), parts.in_flight) == (0, {"toy": 0})


def test_more_output_than_the_plan_allows_is_refused(clock: ManualClock) -> None:
    """An explicit wish beyond the plan is told, not quietly shortened, and holds nothing."""
    parts = Counted(clock)
    with pytest.raises(InvalidField) as caught:
        parts.desk.admit(calls.call(max_output_tokens=101, plan=Plan(max_output_tokens=100)), PREPARED)
    assert caught.value.param == "max_completion_tokens"
    assert parts.in_flight == {}


@pytest.mark.parametrize(("n", "each"), [(None, 100), (1, 100), (3, 33), (200, 1)])
def test_a_silent_request_is_bounded_by_the_plan(clock: ManualClock, n: int | None, each: int) -> None:
    """The plan's bound is shared by all choices and reaches the engine; the caller's own object stays as it was."""
    body = {"model": "toy", "n": n}
    call = calls.call(body=body, plan=Plan(max_output_tokens=100))
    Counted(clock).desk.admit(call, PREPARED)
    assert call.request.body["max_completion_tokens"] == each
    assert call.request.max_output_tokens == each * (n or 1)
    assert body == {"model": "toy", "n": n}


def test_requests_within_the_bound_and_embeddings_pass_untouched() -> None:
    """Nothing is rewritten without need."""
    small, vectors = calls.request(max_output_tokens=100), calls.request(api=Api.EMBEDDINGS)
    assert bounded(small, 100) is small
    assert bounded(vectors, 100) is vectors
    assert bounded(calls.request(max_output_tokens=10**6), 0).max_output_tokens == 10**6
