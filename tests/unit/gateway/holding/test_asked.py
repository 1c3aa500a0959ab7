"""What is asked, as counters: by version and standing, late answers, and cached prompts."""

from dataclasses import replace

import pytest

from penstock.apps import slos
from penstock.domain.ids import TenantId, VersionId
from penstock.domain.models.model import Tier
from penstock.domain.outcome import Outcome
from penstock.domain.serving.slo import Indicator
from penstock.domain.tenancy.standing import Standing
from penstock.domain.tokens import Usage
from penstock.gateway.calls.call import Admitted, Answer
from penstock.gateway.calls.lease import Lease
from penstock.gateway.holding import Asked
from penstock.gateway.holding.asked import KEPT_REPORTS
from tests.support.clock import ManualClock
from tests.support.samples.calls import VERSION, call, principal

TIERS = slos.load()
TTFT_S = TIERS[Tier.CHAT].within_s(Indicator.TTFT)


def admitted(clock: ManualClock, *, expected: int = 20, stream: bool = True) -> Admitted:
    now = clock.monotonic()
    lease = Lease(opened_at=now, deadline_at=now + 30.0)
    lease.expected_output = expected
    made = replace(call(), principal=principal(tenant=TenantId("acme")), lease=lease)
    return replace(made, request=replace(made.request, stream=stream, arrived_at=now))


@pytest.fixture
def asked(clock: ManualClock) -> Asked:
    return Asked(TIERS, clock.monotonic)


def test_a_request_counts_as_it_comes_by_version_and_standing(asked: Asked, clock: ManualClock) -> None:
    """Prompt tokens and expected output, before any answer."""
    one = admitted(clock)
    asked.came(one)
    asked.came(one)
    (counted,) = asked.counted()
    assert (counted.version, counted.standing) == (VERSION.id, one.standing)
    assert (counted.requests, counted.prompt_tokens, counted.output_tokens) == (2, 2 * one.cost.prompt_tokens, 40)
    assert (counted.answered, counted.late) == (0, 0)


def test_an_adapters_requests_are_its_bases(asked: Asked, clock: ManualClock) -> None:
    """The base's workers serve them."""
    one = admitted(clock)
    asked.came(replace(one, version=replace(VERSION, id=VersionId("lora@1"), base=VERSION.id)))
    assert [counted.version for counted in asked.counted()] == [VERSION.id]


def test_a_copy_has_its_own_standing(asked: Asked, clock: ManualClock) -> None:
    """It buys no worker."""
    asked.came(replace(admitted(clock), copy=object()))  # type: ignore[arg-type]
    assert [counted.standing for counted in asked.counted()] == [Standing.SHADOW]


@pytest.mark.parametrize(
    ("answer", "counts"),
    [
        (Answer(outcome=Outcome.OK, usage=Usage(), ttft_s=TTFT_S), (1, 0)),
        (Answer(outcome=Outcome.OK, usage=Usage(), ttft_s=TTFT_S + 0.01), (1, 1)),
        (Answer(outcome=Outcome.DEADLINE, usage=Usage()), (1, 1)),
        (Answer(outcome=Outcome.OWN_DEADLINE, usage=Usage()), (0, 0)),
        (Answer(outcome=Outcome.CANCELLED, usage=Usage()), (0, 0)),
        (Answer(outcome=Outcome.OVER_LIMIT, usage=Usage()), (0, 0)),
    ],
)
def test_late_is_beyond_the_promise(asked: Asked, clock: ManualClock, answer: Answer, counts: tuple[int, int]) -> None:
    """A first token beyond its objective, or a missed deadline; a caller's own deadline judges nobody."""
    asked.ended(admitted(clock), answer)
    (counted,) = asked.counted()
    assert (counted.answered, counted.late) == counts


def test_cached_prompts_are_told(asked: Asked, clock: ManualClock) -> None:
    """Engines compute only the rest."""
    asked.ended(admitted(clock), Answer(outcome=Outcome.OK, usage=Usage(prompt_tokens=100, cached_tokens=60)))
    (counted,) = asked.counted()
    assert (counted.read_tokens, counted.cached_tokens) == (100, 60)


def test_counters_without_a_change_are_dropped(asked: Asked, clock: ManualClock) -> None:
    """A version that is gone leaves no counter behind; one that is asked stays."""
    asked.came(admitted(clock))
    for _ in range(KEPT_REPORTS):
        assert asked.counted()
    asked.came(admitted(clock))
    assert asked.counted()[0].requests == 2
    for _ in range(KEPT_REPORTS):
        asked.counted()
    assert asked.counted() == ()
