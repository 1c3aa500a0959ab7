"""What a gate counted, on its way to the gateway."""

from dataclasses import replace

import pytest

from penstock.domain.serving.used import Used, heard, told

USED = Used(prompt_tokens=30, cached_tokens=16, output_tokens=400, sequences=8, prompts=2)


def test_what_is_told_is_heard() -> None:
    """Counts come through as they were."""
    assert heard(told(USED)) == USED


@pytest.mark.parametrize("value", [b"", b"1,2,3", b"a,b,c,d,e", b"1,2,-3,4,5", b"1,2,3,4,", b"1.5,0,0,0,0"])
def test_nonsense_is_not_a_count(value: bytes) -> None:
    """What can't be read is unknown, and not 0."""
    assert heard(value) is None


def test_a_newer_gate_may_say_more() -> None:
    """Fields that come later don't hinder those that are known."""
    every = replace(USED, steps=50, beside=120, engine_us=9)
    assert heard(told(every) + b",77,x") == every


def test_steps_are_told_where_somebody_counts_them() -> None:
    """Steps and who shared them come through; an older gate says nothing of them, and that is not 0."""
    shared = replace(USED, steps=50, beside=120)
    timed = replace(shared, engine_us=0)
    assert (heard(told(shared)), heard(told(timed))) == (shared, timed)
    assert heard(told(USED)) == replace(USED, steps=None, beside=None)


def test_no_more_is_cached_than_there_is() -> None:
    """The cached part of a prompt is a part of it."""
    count = heard(b"10,99,1,1,1")
    assert count is not None
    assert count.cached_tokens == 10
