"""Callers whose slots are full are told when one should come free."""

import pytest

from penstock.domain.ids import TenantId
from penstock.gateway.admission.held import FIRST_GUESS_S, HALF_LIFE_S, MeanHeld

T = TenantId("t")
NOW = 100.0


def test_the_wait_follows_the_tenants_own_requests() -> None:
    """After some tens of requests the mean is theirs, and more slots come free sooner."""
    held = MeanHeld()
    for _ in range(100):
        held.learn(T, 8.0, NOW)
    assert held.next_free_s(T, 1, NOW) == pytest.approx(8.0, rel=0.01)
    assert held.next_free_s(T, 4, NOW) == pytest.approx(2.0, rel=0.01)


def test_an_unknown_tenant_gets_a_guess() -> None:
    """Before anything has ended there is only a guess."""
    assert MeanHeld().next_free_s(T, 2, NOW) == FIRST_GUESS_S / 2


def test_memory_is_bounded() -> None:
    """The least recently seen tenants are forgotten first."""
    held = MeanHeld(most_remembered=3)
    for name in "abcd":
        held.learn(TenantId(name), 100.0, NOW)
    assert held.next_free_s(TenantId("a"), 1, NOW) == FIRST_GUESS_S
    assert held.next_free_s(TenantId("d"), 1, NOW) > FIRST_GUESS_S


def test_an_old_flood_is_forgotten_by_time() -> None:
    """Half of what was learned is gone after a minute, so minutes after a flood's long waits a wait is short again."""
    held = MeanHeld()
    for _ in range(100):
        held.learn(T, 52.0, NOW)
    waits = [held.next_free_s(T, 1, NOW + after_s) for after_s in (0.0, HALF_LIFE_S, 8 * HALF_LIFE_S)]
    assert waits == pytest.approx([52.0, 26.5, 1.2], rel=0.01)


def test_a_request_after_a_pause_weighs_more_than_one_of_many() -> None:
    """The first answer of a second, three minutes after a flood, brings the mean down to a few seconds at once."""
    held = MeanHeld()
    for _ in range(100):
        held.learn(T, 52.0, NOW)
    later = NOW + 3 * HALF_LIFE_S
    held.learn(T, 1.0, later)
    assert held.next_free_s(T, 1, later) == pytest.approx(1 + 51 * 0.9 / 8, rel=0.01)


def test_a_clock_that_stands_or_returns_ages_nothing() -> None:
    """No time passed: what was learned stays as it is."""
    held = MeanHeld()
    held.learn(T, 11.0, NOW)
    assert held.next_free_s(T, 1, NOW - 5.0) == held.next_free_s(T, 1, NOW) == pytest.approx(2.0)
