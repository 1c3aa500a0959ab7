"""Which tickets a gate takes: for its worker, for this request, in time, once (findings 13 and 17)."""

import pytest

from penstock.domain.errors import Unauthenticated
from penstock.domain.ids import RequestId, TenantId
from penstock.domain.serving.ticket import MAX_SKEW_S, Ticket, binding_of, seal, unseal
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.tickets import TicketCheck, UsedTickets
from tests.support.clock import ManualClock

KEY = b"\x01" * 32
PATH, BODY = "/v1/completions", b"{}"


def ticket(clock: ManualClock, seconds: float = 30.0) -> Ticket:
    return Ticket(
        request=RequestId("r"),
        tenant=TenantId("acme"),
        standing=Standing.PAID,
        weight=1,
        deadline_at=clock.now() + seconds,
        prompt_tokens=10,
        expected_output_tokens=100,
    )


def sealed(clock: ManualClock, seconds: float = 30.0) -> bytes:
    return seal(ticket(clock, seconds), KEY, binding_of(PATH, BODY), clock.now()).encode()


def test_it_opens_its_own_request_once(clock: ManualClock) -> None:
    """The first use is let in, the second is not, whoever brings it."""
    check, header = TicketCheck(KEY, clock), sealed(clock)
    assert check.accept(check.presented(header), PATH, BODY) == ticket(clock)
    with pytest.raises(Unauthenticated):
        check.accept(check.presented(header), PATH, BODY)


@pytest.mark.parametrize(("path", "body"), [("/tokenize", BODY), (PATH, b'{"n":128}')])
def test_another_request_neither_gets_in_nor_uses_it_up(clock: ManualClock, path: str, body: bytes) -> None:
    """Whoever sees a ticket can't run its own request with it, nor stop the one that it was made for."""
    check, header = TicketCheck(KEY, clock), sealed(clock)
    with pytest.raises(Unauthenticated):
        check.accept(check.presented(header), path, body)
    assert check.accept(check.presented(header), PATH, BODY) == ticket(clock)


def test_one_of_another_time_is_refused(clock: ManualClock) -> None:
    """What was sealed longer ago than clocks may differ opens nothing, however far its deadline is."""
    check, header = TicketCheck(KEY, clock), sealed(clock, 3600.0)
    clock.advance(MAX_SKEW_S + 1)
    with pytest.raises(Unauthenticated):
        check.presented(header)


@pytest.mark.parametrize("skew_s", [-80.0, 80.0])
def test_a_clock_that_differs_takes_nothing_of_a_short_deadline(clock: ManualClock, skew_s: float) -> None:
    """A worker whose clock is ahead by more than the deadline gives the request its seconds all the same."""
    theirs = ManualClock(clock.epoch_s + skew_s)
    presented = TicketCheck(KEY, theirs).presented(sealed(clock, 5.0))
    assert presented.ticket.deadline_at - theirs.now() == pytest.approx(5.0)


def test_used_ones_are_forgotten_when_they_are_stale(clock: ManualClock) -> None:
    """The memory of used tickets holds no more than what can come within two spans of clock skew."""
    used = UsedTickets()
    for _ in range(100):
        header = seal(ticket(clock), KEY, b"\x00" * 16, clock.now())
        assert used.use(unseal(header, KEY, clock.now()), clock.now())
        clock.advance(10.0)
    assert len(used) <= 2 * MAX_SKEW_S / 10


@pytest.mark.parametrize("header", [b"", b"\xff\xfe", b"!!!!", b"AAAA", b"="])
def test_a_header_that_is_no_ticket_is_refused(clock: ManualClock, header: bytes) -> None:
    """Bytes that were never a ticket are refused like a forged one."""
    with pytest.raises(Unauthenticated):
        TicketCheck(KEY, clock).presented(header)
