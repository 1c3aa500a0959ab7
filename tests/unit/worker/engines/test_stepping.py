"""Who takes part in an engine's step: the rule alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.worker.engines.stepping import ABOUT_S, EVERYBODY, MOST_STILL, PROMPT_PART, Inside, Stepping

FLOOD, READER = "flood", "reader"


def flood(sequences: int = 20, prompts: int = 0, weight: float = 1.0) -> Inside:
    return Inside(FLOOD, weight, sequences, prompts)


def reader(sequences: int = 1, prompts: int = 1, weight: float = 1.0) -> Inside:
    return Inside(READER, weight, sequences, prompts)


def test_a_flood_stands_still_while_somebodys_prompt_is_read() -> None:
    """C2: the step that reads a newcomer's prompt carries nothing of who holds more than its share."""
    rule = Stepping()
    assert rule.next([flood(prompts=3), reader()], 0.0).still == {FLOOD}
    assert rule.next([flood(prompts=3), reader(prompts=0)], 0.1).still == frozenset()


def test_nobody_stands_still_for_long() -> None:
    """A flood takes part in each fifth step at least, however many prompts others send."""
    rule, still = Stepping(), 0
    for step in range(100):
        still += bool(rule.next([flood(), reader()], step * 0.1).still)
    assert still == 100 * MOST_STILL // (MOST_STILL + 1)


def test_who_was_served_more_than_its_share_has_nobody_stand_still() -> None:
    """A tenant of one long prompt after another can't stop the others for ever: its share of service bounds it."""
    rule, stopped = Stepping(), []
    for step in range(400):
        turnout = rule.next([flood(8), reader()], step * 0.1)
        stopped.append(bool(turnout.still))
        rule.served(READER, 512.0, step * 0.1)
        if not turnout.still:
            rule.served(FLOOD, 16.0, step * 0.1)
    assert sum(stopped[100:]) == 0


@pytest.mark.parametrize("others", [1, 2, 4, 8, 16])
def test_who_was_served_less_than_its_share_stands_still_for_nobody(others: int) -> None:
    """Tenants that ask, leave at the first token and come back can't keep one with a few answers from them: each of
    them is served about the mean, so somebody was always first, and the one had each fifth step.
    """
    rule, still, served = Stepping(), 0, dict.fromkeys(["alice", *map(str, range(others))], 0.0)
    for step in range(600):
        now, here = step * 0.1, [Inside("alice", 1.0, 4, 0), *(Inside(str(n), 1.0, 1, 1) for n in range(others))]
        turnout = rule.next(here, now)
        for one in here:
            if one.name not in turnout.still:
                served[one.name] += (tokens := 8.0 if one.name == "alice" else 60.0)
                rule.served(one.name, tokens, now)
        still += bool(turnout.still)
    assert still < 60


def test_what_nobody_else_wanted_is_not_held_against_anybody() -> None:
    """Whoever had the engine to itself is not behind for it when a flood comes."""
    rule = Stepping()
    for step in range(300):
        rule.next([reader(prompts=0)], step * 0.1)
        rule.served(READER, 500.0, step * 0.1)
    assert rule.next([flood(), reader()], 30.0).still == {FLOOD}


def test_one_sequence_is_never_too_much() -> None:
    """Of tenants with one request each nobody stands still for anybody."""
    rule = Stepping()
    assert rule.next([Inside(str(n), 1.0, 1, n % 2) for n in range(50)], 0.0) == EVERYBODY


def test_shares_go_by_weight() -> None:
    """A tenant of nine times the weight holds nine tenths by right."""
    assert Stepping().next([flood(9, weight=9.0), reader()], 0.0).still == frozenset()
    assert Stepping().next([flood(11, weight=9.0), reader()], 0.0).still == {FLOOD}


def test_prompts_of_a_flood_take_a_part_of_a_step_while_others_are_about() -> None:
    """Whoever comes waits for the step that runs, so that is kept short; alone a tenant has all of it."""
    rule = Stepping()
    assert rule.next([flood(prompts=2)], 0.0).prompt_part == 1.0
    rule.next([flood(prompts=2), reader(prompts=0)], 1.0)
    assert rule.next([flood(prompts=2)], 1.0 + ABOUT_S / 2).prompt_part == PROMPT_PART
    assert rule.next([flood(prompts=2), reader()], 16.1).prompt_part == 1.0
    assert rule.next([flood(prompts=2)], 17.0 + ABOUT_S).prompt_part == 1.0


tenants = st.lists(
    st.tuples(st.integers(1, 40), st.integers(0, 3), st.sampled_from([0.5, 1.0, 8.0])), min_size=1, max_size=8
)


@given(st.lists(tenants, min_size=1, max_size=30))
def test_somebody_always_takes_part(steps: list[list[tuple[int, int, float]]]) -> None:
    """Whatever is inside, whoever has a prompt for which others stand still takes part, and nobody waits five steps."""
    rule, waited = Stepping(), dict[str, int]()
    for number, inside in enumerate(steps):
        here = [Inside(str(n), weight, seqs, min(seqs, prompts)) for n, (seqs, prompts, weight) in enumerate(inside)]
        still = rule.next(here, number * 0.05).still
        assert not still or any(one.prompts and one.name not in still for one in here)
        waited = {one.name: waited.get(one.name, 0) + 1 if one.name in still else 0 for one in here}
        assert max(waited.values()) <= MOST_STILL
        for one in here:
            if one.name not in still:
                rule.served(one.name, one.sequences + 100.0 * one.prompts, number * 0.05)
