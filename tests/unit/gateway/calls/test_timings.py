"""Where a request's time went."""

import pytest

from penstock.domain.outcome import Stage
from penstock.gateway.calls.call import Timings
from tests.support.clock import ManualClock


def test_what_was_spent_elsewhere_is_left_out_of_the_next_stage(clock: ManualClock) -> None:
    """A wait that somebody else measured is its own stage; together the stages are the time that passed."""
    timings = Timings(clock.monotonic, clock.monotonic())
    clock.advance(2.0)
    timings.mark(Stage.ROUTE)
    clock.advance(5.0)
    timings.spent(Stage.QUEUE, 3.0)
    timings.mark(Stage.PREFILL)
    assert timings.seconds == pytest.approx({Stage.ROUTE: 2.0, Stage.QUEUE: 3.0, Stage.PREFILL: 2.0})
