"""What a worker tells of a request's batch."""

import pytest

from penstock.domain.serving.batched import MOST_CHARS, Batched, Trigger, heard, told


@pytest.mark.parametrize("trigger", Trigger)
def test_what_is_told_is_heard(trigger: Trigger) -> None:
    """Size, trigger and wait come through, the wait in microseconds."""
    batched = Batched(size=12, trigger=trigger, waited_s=0.012345)
    assert heard(told(batched).decode()) == batched
    assert len(told(batched)) <= MOST_CHARS


def test_a_newer_worker_tells_how_its_batch_was_made() -> None:
    """Preparing and computing come behind the wait; one who says less, or more, is heard as far as that goes."""
    batched = Batched(size=16, trigger=Trigger.DEADLINE, waited_s=12.5, prepared_s=1.25, computed_s=100.125)
    assert heard(told(batched).decode()) == batched
    assert len(told(batched)) <= MOST_CHARS
    assert heard("2,size,1.0,3.0") == Batched(size=2, trigger=Trigger.SIZE, waited_s=0.001)
    newer = heard("2,size,1.0,3.0,4.0,news")
    assert newer is not None
    assert (newer.prepared_s, newer.computed_s) == (0.003, 0.004)


NONSENSE = ["", "12", "12,size", "x,size,1.0", "12,magic,1.0", "0,size,1.0", "2,size,-1", "2,size,nan", "2,size,inf"]


@pytest.mark.parametrize("value", [*NONSENSE, "2,size,1.0,-1,2", "2,size,1.0,x,2"])
def test_nonsense_is_not_heard(value: str) -> None:
    """An engine that says something else is as one that says nothing."""
    assert heard(value) is None
