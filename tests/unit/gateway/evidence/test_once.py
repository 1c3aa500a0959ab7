"""What counts once in a while: per key, again when it is over, and within bounded memory."""

from penstock.gateway.evidence.counting import Once


def test_a_key_counts_once_in_its_span() -> None:
    """The second of two within ten seconds is the same event; the next one after them is another."""
    once = Once(10.0, 100)
    assert [once.counts("a", at) for at in (0.0, 1.0, 9.9, 10.0, 12.0)] == [True, False, False, True, False]
    assert once.counts("b", 1.0)


def test_callers_that_invent_keys_are_not_remembered_without_end() -> None:
    """While memory is full of recent keys nothing new counts; what is over makes room."""
    once = Once(10.0, 100)
    assert sum(once.counts(number, 0.0) for number in range(1000)) == 100
    assert not once.counts("honest", 9.0)
    assert once.counts("honest", 10.0)
