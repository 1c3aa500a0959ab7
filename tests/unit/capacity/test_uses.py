"""What heartbeats say together."""

from dataclasses import replace

import pytest

from penstock.capacity.uses import HALF_S, follow, uses_per_s
from penstock.domain.fleet.versions import Seen
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.serving.report import Load
from tests.support.samples import control_plane as things

READY = things.report()
BUSY = replace(READY, load=Load(running=1))
WAKING = things.report(state=WorkerState.WAKING)


def test_each_time_that_work_begins_is_a_use() -> None:
    """Work that goes on is one use, and work after a pause another one."""
    seen: Seen | None = None
    for at, report in enumerate((READY, BUSY, BUSY, READY, BUSY)):
        seen = follow(seen, report, float(at))
    assert seen is not None
    assert seen.uses == pytest.approx(2.0, abs=0.01)
    assert seen.used_at == 4.0


def test_worth_is_how_often_and_how_lately() -> None:
    """A use counts half after a while; who was used this moment is worth more than who was used more often before."""
    seen = follow(follow(None, READY, 0.0), BUSY, 1.0)
    later, much_later = uses_per_s(seen, 1.0 + HALF_S), uses_per_s(seen, 1.0 + 2 * HALF_S)
    assert later == pytest.approx(2 * much_later, rel=0.01)
    often = replace(seen, uses=9.0, used_at=0.0)
    assert uses_per_s(often, 2.0) > uses_per_s(seen, 2.0)
    assert uses_per_s(replace(seen, used_at=60.0), 60.0) > uses_per_s(often, 60.0)
    assert uses_per_s(follow(None, READY, 0.0), 1.0) == 0.0


def test_that_it_was_woken_is_a_use() -> None:
    """Whoever had it woken uses it, though no heartbeat may see that."""
    seen = follow(follow(None, things.report(state=WorkerState.SLEEPING), 0.0), WAKING, 1.0)
    seen = follow(seen, WAKING, 2.0)
    assert (seen.uses, seen.used_at) == (1.0, 1.0)


def test_since_when_it_is_in_its_state() -> None:
    """A state begins when it is first heard of; what was there before anybody listened has no beginning."""
    first = follow(None, READY, 1.0)
    assert first.since == 0.0
    woken = follow(follow(first, WAKING, 2.0), READY, 3.0)
    assert follow(woken, READY, 9.0).since == 3.0
