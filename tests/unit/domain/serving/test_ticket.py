"""The ticket: for one worker, one request, one use, whatever the clocks say (finding 17, I1)."""

from dataclasses import replace

import pytest

from penstock.domain.errors import Unauthenticated
from penstock.domain.ids import RequestId, TenantId, VersionId, WorkerId
from penstock.domain.serving.slo import NO_PROMISE, TimedPromise
from penstock.domain.serving.ticket import MAX_SKEW_S, Ticket, binding_of, seal, unseal
from penstock.domain.tenancy.keys import worker_secret
from penstock.domain.tenancy.standing import Standing

PLATFORM_KEY = b"k" * 32
KEY = worker_secret(PLATFORM_KEY, WorkerId("w1"))
NOW = 1_000_000.0
BOUND = binding_of("/v1/completions", b"{}")
TICKET = Ticket(
    request=RequestId("r12"),
    tenant=TenantId("t"),
    standing=Standing.PAID,
    weight=3,
    deadline_at=NOW + 30,
    start_by=NOW + 15,
    prompt_tokens=5,
    expected_output_tokens=7,
    reserved=0.125,
)


@pytest.mark.parametrize("standing", Standing)
def test_it_carries_what_was_sealed(standing: Standing) -> None:
    """What the gateway sealed is what the worker reads."""
    ticket = replace(TICKET, standing=standing)
    assert unseal(seal(ticket, KEY, BOUND, NOW), KEY, NOW).ticket == ticket


@pytest.mark.parametrize("adapter", ["", "tune@0123456789ab"])
@pytest.mark.parametrize("kv_waits", [True, False])
def test_it_carries_the_tenants_part_of_the_kv_cache(adapter: str, *, kv_waits: bool) -> None:
    """Beside an adapter and without one."""
    ticket = replace(TICKET, adapter=VersionId(adapter), kv_part=0.25, kv_waits=kv_waits)
    assert unseal(seal(ticket, KEY, BOUND, NOW), KEY, NOW).ticket == ticket


def test_it_carries_the_promise_and_whether_it_stands_still() -> None:
    """Beside each other, and each alone; without a promise there is none."""
    promise = TimedPromise(first_s=1.0, each_s=0.1, late_ratio=0.05)
    for one in (
        replace(TICKET, promise=promise),
        replace(TICKET, yields=True),
        replace(TICKET, adapter=VersionId("a")),
    ):
        assert unseal(seal(one, KEY, BOUND, NOW), KEY, NOW).ticket == one
    assert unseal(seal(TICKET, KEY, BOUND, NOW), KEY, NOW).ticket.promise == NO_PROMISE


@pytest.mark.parametrize("skew_s", [-80.0, -1.0, 0.0, 80.0])
def test_a_clock_that_differs_changes_no_deadline(skew_s: float) -> None:
    """The worker gives a request the seconds that were left, on its own clock."""
    read = unseal(seal(TICKET, KEY, BOUND, NOW), KEY, NOW + skew_s).ticket
    assert read.deadline_at == pytest.approx(NOW + skew_s + 30)
    assert read.start_by == pytest.approx(NOW + skew_s + 15)


@pytest.mark.parametrize("skew_s", [-MAX_SKEW_S - 1, MAX_SKEW_S + 1])
def test_one_of_another_time_is_refused(skew_s: float) -> None:
    """A ticket is good for as long as clocks may differ, however far its deadline is."""
    far = replace(TICKET, deadline_at=NOW + 3600)
    with pytest.raises(Unauthenticated):
        unseal(seal(far, KEY, BOUND, NOW), KEY, NOW + skew_s)


def test_one_for_another_worker_is_refused() -> None:
    """A worker that was broken into can't forge tickets for its neighbours, nor use what was sent to it there."""
    with pytest.raises(Unauthenticated):
        unseal(seal(TICKET, KEY, BOUND, NOW), worker_secret(PLATFORM_KEY, WorkerId("w2")), NOW)


@pytest.mark.parametrize("value", ["", "AAAA", "x" * 4000, "é", "=" * 8])
def test_what_is_no_ticket_is_refused(value: str) -> None:
    """Damage of any kind is told in one way."""
    with pytest.raises(Unauthenticated):
        unseal(value, KEY, NOW)


def test_every_changed_byte_is_noticed() -> None:
    """Nothing of a sealed ticket can be altered: fields, binding and nonce stand under the seal."""
    sealed = seal(TICKET, KEY, BOUND, NOW)
    for place in range(len(sealed)):
        other = sealed[:place] + ("A" if sealed[place] != "A" else "B") + sealed[place + 1 :]
        with pytest.raises(Unauthenticated):
            unseal(other, KEY, NOW)


@pytest.mark.parametrize(
    ("path", "body"), [("/v1/completions", b"{} "), ("/v1/chat/completions", b"{}"), ("/v1/completions{", b"}")]
)
def test_the_binding_tells_requests_apart(path: str, body: bytes) -> None:
    """Another path, another body, and the same bytes split elsewhere, are other requests."""
    assert binding_of(path, body) != BOUND
