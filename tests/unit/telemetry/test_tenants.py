"""Metrics say no more of tenants than the settings let them."""

import pytest

from penstock.telemetry.tenants import TenantNames, labels, scope_label

KEY = b"k" * 32


@pytest.mark.parametrize("names", TenantNames)
def test_tenants_are_bounded_and_hidden_as_set(names: TenantNames) -> None:
    """Finding 8: the first tenants and others, by name, by a keyed digest, or not at all; budgets' scopes alike."""
    found = labels(names, 2, KEY)
    shown = [found.of(tenant) for tenant in ("alice", "bob", "carol", "alice")]
    assert shown[0] == shown[3]
    assert shown[2] == "other"
    assert len(set(shown)) == (1 if names is TenantNames.OFF else 3)
    scope = scope_label(names, KEY)("tenant:alice")
    assert scope == f"tenant:{shown[0]}"
    assert ("alice" in scope) is (names is TenantNames.NAMED)
    assert labels(names, 2, b"x" * 32).of("alice") == shown[0] or names is TenantNames.HASHED
