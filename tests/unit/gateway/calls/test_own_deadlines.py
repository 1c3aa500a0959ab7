"""When a missed deadline is the caller's own choice, and when it breaks a promise of the platform."""

from dataclasses import replace

import pytest

from penstock.apps.slos import load
from penstock.domain.errors import DeadlineExceeded, DeadlineInQueue, DeadlineUnreachable, PenstockError
from penstock.domain.models.model import Tier
from penstock.domain.outcome import Stage
from penstock.domain.serving.slo import Pace
from penstock.domain.tenancy.cost import Cost
from penstock.domain.tokens import UNKNOWN
from penstock.gateway.calls.call import Admitted, Answer
from penstock.gateway.calls.lease import Lease
from tests.support.samples import calls

CHAT = Pace(first_s=1.0, each_s=0.1)
WHOLE = Pace(first_s=0.25)


def missed(
    pace: Pace = CHAT,
    *,
    given_s: float,
    stream: bool = True,
    delivered: int = 0,
    expected: int = 100,
    error: PenstockError | None = None,
) -> tuple[Admitted, Answer]:
    """Return a call whose own deadline has passed."""
    call = calls.call(stream=stream, deadline_s=given_s)
    call = replace(call, own_deadline=True, pace=pace)
    call = replace(call, lease=Lease(opened_at=0.0, deadline_at=given_s))
    call.lease.delivered, call.lease.expected_output = delivered, expected
    return call, Answer.refused(error or DeadlineExceeded(), UNKNOWN)


@pytest.mark.parametrize(
    ("end", "is_own"),
    [
        (missed(given_s=119.999), False),
        (missed(given_s=1.0), False),
        (missed(given_s=0.5), True),
        (missed(given_s=119.999, error=DeadlineInQueue()), False),
        (missed(given_s=10.0, delivered=200), True),
        (missed(given_s=10.0, delivered=10), False),
        (missed(given_s=119.999, error=DeadlineUnreachable()), False),
        (missed(given_s=10.0, error=DeadlineUnreachable()), True),
        (missed(given_s=119.999, stream=False), False),
        (missed(given_s=10.0, stream=False), True),
        (missed(WHOLE, given_s=29.999, stream=False), False),
        (missed(WHOLE, given_s=0.2, stream=False), True),
    ],
)
def test_a_deadline_is_its_callers_own_where_it_leaves_less_than_is_promised(
    end: tuple[Admitted, Answer], is_own: bool
) -> None:
    """A hair under the tier's deadline hides no outage, and who wants more than is promised breaks nothing."""
    call, answer = end
    assert call.is_own(answer) is is_own


def test_choices_are_written_side_by_side() -> None:
    """Two hundred tokens in four choices are fifty after one another."""
    call, answer = missed(given_s=10.0, stream=False, expected=200)
    assert call.is_own(answer)
    call = replace(call, request=replace(call.request, cost=Cost(sequences=4)))
    assert not call.is_own(answer)


def test_the_tiers_deadline_is_never_the_callers_but_for_what_it_read_slowly() -> None:
    """A stream that its reader holds up until the deadline of the tier is the reader's; one that was slow is ours."""
    call, answer = missed(given_s=120.0, delivered=300)
    call = replace(call, own_deadline=False)
    assert not call.is_own(answer)
    call.timings.paused_s = 100.0
    assert call.is_own(answer)
    assert call.lease is not None
    call.lease.delivered = 50
    assert not call.is_own(answer)


def test_a_slow_upload_is_no_time_that_the_platform_had() -> None:
    """A caller that spends its own deadline on sending its body has left nothing for the answer."""
    call, answer = missed(given_s=10.0)
    call.timings.put(Stage.UPLOAD, 9.5)
    assert call.is_own(answer)


def test_what_never_had_a_lease_is_judged_by_its_deadline() -> None:
    """Where the gateway itself took longer than the caller gave, that is ours from the first token's promise on."""
    for given_s, is_own in ((0.1, True), (5.0, False)):
        call, answer = missed(given_s=given_s)
        call = replace(call, lease=None)  # type: ignore[arg-type]  # as one that was never admitted
        assert call.is_own(answer) is is_own


def test_each_tier_has_a_pace() -> None:
    """First token and gaps, or the whole answer; where nothing is promised in time, the deadline is the promise."""
    paces = {tier: slo.pace for tier, slo in load().items()}
    assert paces[Tier.CHAT] == Pace(first_s=1.0, each_s=0.1)
    assert paces[Tier.EMBEDDING] == Pace(first_s=0.25)
    assert paces[Tier.BATCH] == Pace(first_s=3600.0)
