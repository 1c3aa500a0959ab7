"""Where the time of a batched request goes: decoding of images, waiting and computing are told apart."""

import pytest

from penstock.domain.outcome import Stage
from penstock.domain.serving.report import Batched, Trigger
from penstock.gateway.calls.call import Timings
from penstock.gateway.streaming.stages import split_batched

BATCHED = Batched(size=4, trigger=Trigger.IDLE, waited_s=0.1, prepared_s=0.2, computed_s=0.3)


def at_worker(seconds: float) -> Timings:
    """Return the timings of a request that waited 50 ms at the door, and so long behind it."""
    timings = Timings(lambda: 0.0, 0.0)
    timings.put(Stage.QUEUE, 0.05)
    timings.put(Stage.DECODE, seconds)
    return timings


def test_preparing_waiting_and_computing_are_stages_of_their_own() -> None:
    """The wait for a batch is no part of that at the door; the rest at the worker is the way there and back."""
    timings = at_worker(0.61)
    split_batched(timings, BATCHED, items=1)
    assert timings.seconds == pytest.approx(
        {Stage.QUEUE: 0.05, Stage.BATCH_WAIT: 0.1, Stage.PREPARE: 0.2, Stage.COMPUTE: 0.3, Stage.RELAY: 0.01}
    )


def test_items_of_one_request_wait_for_one_another() -> None:
    """Of several items the last one's is told, and the time before it is a wait."""
    timings = at_worker(1.6)
    split_batched(timings, BATCHED, items=40)
    assert timings.seconds == pytest.approx(
        {Stage.QUEUE: 0.05, Stage.BATCH_WAIT: 1.1, Stage.PREPARE: 0.2, Stage.COMPUTE: 0.3}
    )


def test_stages_never_add_up_to_more_than_the_time() -> None:
    """Clocks of two machines may differ: no stage is longer than what was left of the time at the worker."""
    timings = at_worker(0.25)
    split_batched(timings, BATCHED, items=1)
    assert timings.seconds == pytest.approx(
        {Stage.QUEUE: 0.05, Stage.BATCH_WAIT: 0.1, Stage.PREPARE: 0.15, Stage.COMPUTE: 0.0, Stage.RELAY: 0.0}
    )


def test_a_worker_that_does_not_say_leaves_the_time_as_it_is() -> None:
    """An answer without the times of its batch keeps its one stage."""
    timings = at_worker(0.6)
    split_batched(timings, Batched(size=4, trigger=Trigger.IDLE, waited_s=0.1), items=1)
    assert timings.seconds == {Stage.QUEUE: 0.05, Stage.DECODE: 0.6}
