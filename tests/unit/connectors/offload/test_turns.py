from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.offload.turns import FairTurns


def test_a_flood_waits_behind_itself() -> None:
    """Who asks seldom is next, however much another has waiting."""
    turns: FairTurns[str] = FairTurns()
    for i in range(5):
        turns.put("flood", 10, f"flood {i}")
    assert turns.take() == "flood 0"
    turns.put("seldom", 10, "seldom")
    assert [turns.take(), turns.take()] == ["seldom", "flood 1"]


def test_a_large_piece_costs_as_many_turns_as_small_ones() -> None:
    """Turns are shared by what is asked for, not by how often."""
    turns: FairTurns[str] = FairTurns()
    turns.put("large", 100, "large 0")
    turns.put("large", 100, "large 1")
    for i in range(12):
        turns.put("small", 10, f"small {i}")
    order = [turns.take() for _ in range(13)]
    assert order.index("large 1") == 12 - 1


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 50))))
def test_everything_has_its_turn_once_and_in_its_callers_order(given_: list[tuple[str, int]]) -> None:
    """Nothing is lost, nothing comes twice, nobody overtakes itself."""
    turns: FairTurns[tuple[str, int]] = FairTurns()
    for i, (who, cost) in enumerate(given_):
        turns.put(who, cost, (who, i))
    taken = [turns.take() for _ in range(len(turns))]
    assert sorted(taken, key=lambda one: one[1]) == [(who, i) for i, (who, _) in enumerate(given_)]
    for who in "abc":
        mine = [i for owner, i in taken if owner == who]
        assert mine == sorted(mine)
