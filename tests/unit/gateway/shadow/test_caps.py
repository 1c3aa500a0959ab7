"""What copies take: never more than their caps, over any while."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.shadow import ShadowCaps
from penstock.gateway.shadow.caps import Level, Taken


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
        if taken.may_score(caps, tenth / 10):
            taken.scored()
            found.append(tenth)
    assert len(found) == 4
    assert not Taken().may_score(ShadowCaps(scored_per_s=0.0), 0.0)
