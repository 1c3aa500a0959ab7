"""What copies take: never more than their caps, over any while."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.ids import TenantId
from penstock.domain.serving.shadow import ShadowCaps
from penstock.gateway.shadow.caps import LATELY_S, MOST_TENANTS, ComparisonCaps, Level, Taken, TenantTurns

ACME = TenantId("acme")


@given(
    per_s=st.floats(0.1, 50.0),
    gaps=st.lists(st.floats(0.0, 3.0), min_size=1, max_size=200),
    amounts=st.integers(1, 20),
)
def test_a_rate_is_kept_over_any_while(per_s: float, gaps: list[float], amounts: int) -> None:
    """What went is at most the rate times the time, one second's worth, and the one that overdrew."""
    level, now, went = Level(), 0.0, 0.0
    for gap in gaps:
        now += gap
        if level.has(per_s, now):
            level.spend(amounts)
            went += amounts
    assert went <= per_s * now + max(1.0, per_s) + amounts + 1e-6


def test_each_cap_holds_by_itself() -> None:
    """Copies, tokens and those under way; what ended makes room again."""
    caps = ShadowCaps(per_s=10.0, tokens_per_s=1_000.0, at_once=2)
    assert not Taken().has_room(ShadowCaps(per_s=0.0), 0.0)
    assert not Taken().has_room(ShadowCaps(tokens_per_s=0.0), 0.0)
    assert not Taken().has_room(ShadowCaps(at_once=0), 0.0)
    busy = Taken()
    for _ in range(2):
        assert busy.has_room(caps, 0.0)
        busy.sent(1)
    assert not busy.has_room(caps, 0.0)
    busy.at_once -= 1
    assert busy.has_room(caps, 0.0)
    long = Taken()
    assert long.has_room(caps, 0.0)
    long.sent(5_000)
    long.at_once = 0
    assert [long.has_room(caps, at) for at in (0.0, 3.9, 4.2)] == [False, False, True]


def test_scores_have_a_rate_of_their_own() -> None:
    """One a second is one a second, and none is none."""
    taken, caps = Taken(), ShadowCaps(scored_per_s=1.0)
    found = []
    for tenth in range(31):
        if taken.may_score(caps, ACME, tenth / 10):
            taken.scored(ACME, tenth / 10)
            found.append(tenth)
    assert len(found) == 4
    assert not Taken().may_score(ShadowCaps(scored_per_s=0.0), ACME, 0.0)


def test_a_flood_is_one_witness_of_many() -> None:
    """Tenants are scored in turn: one that sends a hundred times as much as four others has little more than they."""
    taken, caps, scored = Taken(), ShadowCaps(scored_per_s=1.0), Counter[str]()
    for hundredth in range(30_000):
        now = hundredth / 100
        quiet = TenantId(f"t{hundredth // 100 % 4}")
        for tenant in (ACME, quiet) if hundredth % 100 == 50 else (ACME,):
            taken.came(tenant, now)
            if taken.may_score(caps, tenant, now):
                taken.scored(tenant, now)
                scored[tenant] += 1
    assert scored[ACME] <= 1.5 * min(scored.values())
    assert scored.total() >= 150


def test_a_tenant_alone_is_scored_as_often_as_the_cap_allows() -> None:
    """Nobody waits for a tenant that has gone."""
    taken, caps = Taken(), ShadowCaps(scored_per_s=1.0)
    taken.came(TenantId("gone"), 0.0)
    found = 0
    for second in range(1, 61):
        taken.came(ACME, float(second))
        if taken.may_score(caps, ACME, float(second)):
            taken.scored(ACME, float(second))
            found += 1
    assert found >= 57


def test_turns_of_many_tenants_are_bounded() -> None:
    """Who is one too many gets no turn, and nobody else loses theirs."""
    turns = TenantTurns()
    for number in range(2 * MOST_TENANTS):
        turns.came(TenantId(f"t{number}"), 0.0)
    assert len(turns._came_at) == MOST_TENANTS
    turns.came(ACME, LATELY_S)
    assert len(turns._came_at) == 1


def compared_in_an_hour(*tenants: tuple[str, float, float], per_s: float = 0.2) -> Counter[str]:
    """Return how many of each tenant's answers are compared: its name, seconds between answers, seconds of a copy."""
    compared, found, running = ComparisonCaps(), Counter[str](), list[tuple[float, TenantId]]()
    coming = [(seconds, name, seconds, copy_s) for name, seconds, copy_s in tenants]
    while (one := min(coming))[0] < 3600.0:
        coming.remove(one)
        now, name, seconds, copy_s = one
        for over in [run for run in running if run[0] <= now]:
            running.remove(over)
            compared.ended(over[1])
        if compared.may_go(per_s, TenantId(name), now):
            compared.goes(TenantId(name), 100, now)
            running.append((now + copy_s, TenantId(name)))
            found[name] += 1
        coming.append((now + seconds, name, seconds, copy_s))
    return found


@pytest.mark.parametrize("flood_s", [0.1, 0.2, 0.55])
@pytest.mark.parametrize("quiet_s", [1.0, 8.0, 20.0, 60.0])
def test_who_asks_seldom_is_compared_beside_a_flood(flood_s: float, quiet_s: float) -> None:
    """Most of the times that it is alone, as far as turns allow; and together they keep the rate."""
    alone = compared_in_an_hour(("quiet", quiet_s, 1.0))["quiet"]
    found = compared_in_an_hour(("flood", flood_s, 0.5), ("quiet", quiet_s, 1.0))
    assert found["quiet"] >= 0.7 * min(alone, 0.5 * 0.2 * 3600)
    assert found.total() <= 0.2 * 3600 + 2


def test_long_copies_of_one_tenant_hold_up_nobody_else() -> None:
    """One of each tenant runs at a time."""
    found = compared_in_an_hour(("slow", 1.0, 60.0), ("quick", 1.0, 1.0))
    assert found["quick"] >= 300
    assert found["slow"] >= 50


def test_more_tenants_than_are_remembered_keep_the_rate() -> None:
    """And nobody is first for ever because nobody remembers it."""
    turns, had = TenantTurns(), Counter[str]()
    for second in range(50):
        now = second * 0.01
        for number in range(MOST_TENANTS + 1):
            turns.came(TenantId(f"t{number}"), now)
        late = TenantId(f"t{MOST_TENANTS}")
        if turns.is_theirs(late, now):
            turns.record_turn(late, now)
            had[late] += 1
    assert had.total() <= 1
