"""What a gate knows of its engine's own numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.worker.gate.load import MOST_UNSEEN_S, LoadBook, Observed

LOOKS = st.lists(st.tuples(st.sampled_from([0.25, 1.0, 9.0]), st.booleans()), min_size=1, max_size=20)
"""Seconds since the last look, and whether the engine was still since."""


def test_it_says_for_how_long_the_engine_has_done_nothing() -> None:
    """Gateways ask before they take a slow answer for a hung engine; unknown is not zero."""
    book = LoadBook(max_num_seqs=4)
    assert book.still_s(0.0) is None
    book.enter(8, 8)
    book.observe(Observed(), 1.0)
    said = []
    for at, still in ((2.0, False), (4.0, True), (6.0, False), (9.0, True)):
        book.observe(Observed(is_still=still), at)
        said.append(book.still_s(at + 1.0))
    assert said == [0.0, 3.0, 0.0, 4.0]


def test_an_engine_without_work_is_not_still() -> None:
    """Rest is no standstill, nor is what was seen before the request came that is there now."""
    book = LoadBook(max_num_seqs=4)
    book.observe(Observed(), 0.0)
    book.observe(Observed(is_still=True), 3.0)
    assert book.still_s(3.5) == 0.0
    book.enter(1900, 1)
    book.observe(Observed(is_still=True), 4.0)
    assert book.still_s(4.5) == 0.0
    book.observe(Observed(is_still=True), 5.0)
    assert book.still_s(5.5) == 5.5


def test_a_question_of_the_platform_is_work() -> None:
    """An engine that hangs is found by probes alone, after the last caller has left."""
    book = LoadBook(max_num_seqs=4)
    book.probes += 1
    book.observe(Observed(), 1.0)
    book.observe(Observed(is_still=True), 2.0)
    assert (book.still_s(3.0), book.load.running) == (2.0, 0)


def test_who_waits_inside_the_engine_is_still_in_flight() -> None:
    """Routing counts them as waiting, and never more than were let in: one request may have many items."""
    book = LoadBook(max_num_seqs=4)
    for _ in range(3):
        book.enter(8, 0)
    found = []
    for waiting in (0, 2, 30):
        book.observe(Observed(waiting=waiting), 1.0)
        found.append((book.load.running, book.load.waiting))
    assert found == [(3, 0), (1, 2), (0, 3)]
    assert book.load.queued_tokens == 24


@given(looks=LOOKS, later_s=st.sampled_from([0.5, 30.0]))
def test_who_was_seen_at_work_is_not_still(looks: list[tuple[float, bool]], later_s: float) -> None:
    """A long step is no silence; a hung engine's counts since the last step seen, as far as its agent's looks reach."""
    book, now, still_s = LoadBook(max_num_seqs=4), 0.0, 0.0
    book.enter(1900, 1)
    book.observe(Observed(), now)
    for wait_s, still in looks:
        now += wait_s
        book.observe(Observed(is_still=still), now)
        still_s = still_s + min(wait_s, MOST_UNSEEN_S) if still else 0.0
    expected = still_s + min(later_s, MOST_UNSEEN_S) if looks[-1][1] else 0.0
    assert book.still_s(now + later_s) == pytest.approx(expected)


def test_an_agent_that_stands_still_makes_no_engine_hang() -> None:
    """Its last look speaks for the engine for three seconds, not for as long as it is away."""
    book = LoadBook(max_num_seqs=4)
    book.enter(8, 8)
    book.observe(Observed(), 0.0)
    book.observe(Observed(is_still=True), 1.0)
    assert book.still_s(600.0) == 1.0 + MOST_UNSEEN_S
