"""Start-time fair queueing: nothing is lost, and backlogged flows are served by weight."""

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from penstock.fairness.turns import FairTurns, VirtualTimes


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


Backlog = dict[str, tuple[int, list[int]]]
"""By flow: its weight, and the costs of its requests."""


@given(
    st.dictionaries(
        st.sampled_from("abcd"),
        st.tuples(st.integers(1, 8), st.lists(st.integers(1, 50), min_size=1, max_size=30)),
        min_size=2,
    ),
    st.randoms(use_true_random=False),
)
def test_backlogged_flows_are_served_by_weight(backlog: Backlog, chance: random.Random) -> None:
    """While two flows wait, their service by weight differs by one request of each at most, however it came (SFQ)."""
    turns: FairTurns[tuple[str, float]] = FairTurns()
    for flow, cost in sorted(
        ((f, c) for f, (_, costs) in backlog.items() for c in costs), key=lambda _: chance.random()
    ):
        share = cost / backlog[flow][0]
        turns.put(flow, share, (flow, share))
    left, served = {flow: len(costs) for flow, (_, costs) in backlog.items()}, dict.fromkeys(backlog, 0.0)
    most = {flow: max(costs) / weight for flow, (weight, costs) in backlog.items()}
    while all(left.values()):
        flow, share = turns.take()
        served[flow] += share
        left[flow] -= 1
        for one, other in itertools.combinations(backlog, 2):
            assert abs(served[one] - served[other]) <= most[one] + most[other] + 1e-9


def test_idling_earns_no_credit() -> None:
    """A flow that was away resumes at the present; one that has had more than its share is not forgiven it."""
    times: VirtualTimes[str] = VirtualTimes()
    times.charge("busy", 10.0)
    times.serve(8.0)
    assert (times.resume("away"), times.resume("busy")) == (8.0, 10.0)
    times.charge("busy", -4.0)
    assert times.of("busy") == 6.0, "a correction gives back what was charged too much"
