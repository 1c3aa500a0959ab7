"""Callers whose slots are full are told when one should come free."""

import pytest

from penstock.domain.ids import TenantId
from penstock.gateway.admission.held import FIRST_GUESS_S, MeanHeld

T = TenantId("t")


def test_the_wait_follows_the_tenants_own_requests() -> None:
    """After some tens of requests the mean is theirs, and more slots come free sooner."""
    held = MeanHeld()
    for _ in range(100):
        held.learn(T, 8.0)
    assert held.next_free_s(T, 1) == pytest.approx(8.0, rel=0.01)
    assert held.next_free_s(T, 4) == pytest.approx(2.0, rel=0.01)


def test_an_unknown_tenant_gets_a_guess() -> None:
    """Before anything has ended there is only a guess."""
    assert MeanHeld().next_free_s(T, 2) == FIRST_GUESS_S / 2


def test_memory_is_bounded() -> None:
    """The least recently seen tenants are forgotten first."""
    held = MeanHeld(most_remembered=3)
    for name in "abcd":
        held.learn(TenantId(name), 100.0)
    assert held.next_free_s(TenantId("a"), 1) == FIRST_GUESS_S
    assert held.next_free_s(TenantId("d"), 1) > FIRST_GUESS_S
