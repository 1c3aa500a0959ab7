"""When an engine counts as hung."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.lateness.activity import Activity
from penstock.worker.agent.watchdog import STEPS, Doing, StallLimits, Watchdog, doing
from penstock.worker.engines.vitals import Vitals

PATIENCE = StallLimits.of(10.0)
RESTING, UNKNOWN, NOTHING, WORKING, COMPILING = Doing


def hung_after(did: Doing, marker: object = None, dog: Watchdog | None = None, since: int = 0) -> int:
    """Return the second at which an engine that only does this counts as hung."""
    dog = dog or Watchdog(PATIENCE, since)
    for second in range(since + 1, since + 1000):
        dog.look(marker, did, float(second))
        if dog.verdict:
            return second - since
    raise AssertionError("never")


def test_an_engine_that_works_is_never_hung() -> None:
    """As long as the marker moves now and then, no wait is long enough."""
    dog = Watchdog(PATIENCE, 0.0)
    for second in range(1, 200):
        dog.look(second // 8, NOTHING, float(second))
        assert not dog.verdict


@pytest.mark.parametrize("marker", [(5.0,), None], ids=["nothing moves", "nobody answers"])
def test_an_engine_that_does_nothing_is_hung_after_the_timeout(marker: object) -> None:
    """Neither a marker that stands still nor silence is forgiven for longer than the timeout."""
    dog = Watchdog(PATIENCE, 0.0)
    dog.look((5.0,), NOTHING, 1.0)
    assert hung_after(NOTHING, marker, dog, 1) == 10
    assert dog.verdict.endswith("it used no CPU")


@pytest.mark.parametrize(("did", "seconds"), [(WORKING, 60), (UNKNOWN, 60), (COMPILING, 300)])
def test_work_without_progress_is_believed_longer_and_not_for_ever(did: Doing, seconds: int) -> None:
    """Finding 7: a compile or a grammar of 13 s is no hang; an endless loop still is one in the end."""
    assert hung_after(did) == seconds


def test_an_engine_without_work_rests_for_as_long_as_it_likes() -> None:
    """Who has nothing to do and answered its last probe is never hung, however rare probes are."""
    with pytest.raises(AssertionError, match="never"):
        hung_after(RESTING)


@given(st.lists(st.sampled_from([WORKING, UNKNOWN, COMPILING]), max_size=50))
def test_stillness_is_found_whatever_was_done_before(before: list[Doing]) -> None:
    """An engine that freezes in the middle of its work is found by its stillness alone."""
    dog = Watchdog(PATIENCE, 0.0)
    for second, did in enumerate(before, 1):
        dog.look(None, did, float(second))
    assert hung_after(NOTHING, None, dog, len(before)) <= 10


def test_an_engine_is_judged_by_its_own_steps() -> None:
    """On a machine that is merely slow, some of its own usual steps are believed in, up to the bound of a compile."""
    dog, now = Watchdog(PATIENCE, 0.0), 0.0
    for step in range(40):
        for _ in range(8):
            now += 1.0
            dog.look(step, WORKING, now)
    assert hung_after(WORKING, 39, dog, int(now)) == pytest.approx((STEPS - 1) * 7.0, abs=2.0)
    assert PATIENCE.working_s < STEPS * 7.0


def test_time_in_which_the_agent_slept_does_not_count() -> None:
    """A machine that was suspended for an hour does not make its engine look hung."""
    dog = Watchdog(PATIENCE, 0.0)
    dog.look(1, NOTHING, 1.0)
    dog.look(1, NOTHING, 3601.0)
    assert not dog.verdict
    dog.look(2, NOTHING, 3602.0)
    assert dog.silent_s == 0.0


def seen(server_s: float, core_s: float, watcher_s: float = 0.0, *, wants: str = "", compiles: bool = False) -> Vitals:
    return Vitals(
        watcher=Activity(seconds=watcher_s),
        server=Activity(seconds=server_s, wants_core="server" in wants),
        core=Activity(seconds=core_s, wants_core="core" in wants),
        compiles=compiles,
    )


@pytest.mark.parametrize(
    ("now", "answers", "did"),
    [
        (seen(1.0, 5.0), True, NOTHING),
        (seen(1.5, 5.01), True, NOTHING),
        (seen(1.9, 5.01), True, UNKNOWN),
        (seen(1.0, 5.5), True, WORKING),
        (seen(1.0, 5.0, wants="core"), True, WORKING),
        (seen(1.0, 5.9, wants="core"), False, NOTHING),
        (seen(1.0, 5.9, 0.5), False, UNKNOWN),
        (seen(1.0, 5.0, 0.5), True, NOTHING),
        (seen(1.5, 5.0), False, WORKING),
        (seen(1.0, 5.0, wants="server"), False, WORKING),
        (seen(1.0, 5.0, compiles=True), True, COMPILING),
    ],
    ids=[
        "deadlocked",
        "a frozen core behind a busy server",
        "a server that renders, and a core without work",
        "a long step",
        "a step on a machine that has no core for it",
        "a frozen server before a busy core",
        "a watchdog that could not read the answer",
        "a deadlocked core before a slow watchdog",
        "a large template",
        "a server that nobody lets run",
        "a compiler beside it",
    ],
)
def test_what_is_seen_of_its_processes(now: Vitals, answers: bool, did: Doing) -> None:
    """Of an engine that answers its core is judged, of one that doesn't its server; waiting for a core is work."""
    assert doing(seen(1.0, 5.0), now, 1.0, answers=answers) is did


def test_one_look_condemns_nobody() -> None:
    """Without a look before there are no seconds to judge by, only who wants a core."""
    assert doing(None, seen(9.0, 9.0), 0.0, answers=True) is UNKNOWN
    assert doing(None, seen(9.0, 9.0, wants="core"), 0.0, answers=True) is WORKING
