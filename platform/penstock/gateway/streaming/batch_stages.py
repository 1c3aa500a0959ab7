"""The stages of a request at a worker that makes batches, by that worker's own account. Pure."""

from penstock.domain.outcome import Stage
from penstock.domain.serving import batched
from penstock.gateway.calls.call import Timings


def split(timings: Timings, batch: bytes, *, items: int) -> None:
    """Split the time at the worker (closed as ``decode``) by what it told of the last item; the rest is the way back.

    Of several items the rest is a wait: they wait for one another.
    """
    told = batched.heard(batch[: batched.MOST_CHARS].decode("latin-1"))
    if told is None or told.prepared_s is None or told.computed_s is None:
        return
    left_s = timings.seconds.pop(Stage.DECODE, 0.0)
    parts = {Stage.QUEUE: told.waited_s, Stage.PREPARE: told.prepared_s, Stage.COMPUTE: told.computed_s}
    for stage, seconds in parts.items():
        spent = min(seconds, left_s)
        _add(timings, stage, spent)
        left_s -= spent
    _add(timings, Stage.RELAY if items == 1 else Stage.QUEUE, left_s)


def _add(timings: Timings, stage: Stage, seconds: float) -> None:
    timings.put(stage, timings.seconds.get(stage, 0.0) + seconds)
