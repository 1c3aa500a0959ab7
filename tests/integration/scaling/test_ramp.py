"""A ramp that one worker can't hold, twice: its second worker starts, sleeps after the window, and wakes."""

import time
from collections.abc import Iterator

import pytest

from penstock.scaling.constants import IN_WINDOW_S
from tests.integration.conftest import HomeMaker
from tests.support.patience import patient, until
from tests.support.platforms.scaled import Asking, Said, ScaledSite, Timeline, scaled_site

pytestmark = [pytest.mark.integration, pytest.mark.drill, pytest.mark.timeout(2400)]

BEYOND_START_S = 2.0
BEYOND_WAKE_S = 4.0
RISES_EVERY_S = 12.0
PAIR = ["ready", "ready"]


@pytest.fixture(scope="module")
def site(new_home: HomeMaker, shared_settings: dict[str, str]) -> Iterator[ScaledSite]:
    with scaled_site(new_home("ramp"), shared_settings, "least: 1, most: 2, parked: 1") as running:
        running.platform.run("bench", "engine", running.version, "--minutes", "1", within_s=patient(400))
        yield running


def ramp(site: ScaledSite, timeline: Timeline) -> tuple[float, float, list[Said]]:
    """Double the rate until two are wanted, then ask until two serve; return both times and the answers."""
    changes = len(site.changes)
    with Asking(site, 1.0) as asking:
        for _ in range(7):
            if len(site.changes) > changes:
                break
            time.sleep(RISES_EVERY_S)
            asking.per_s *= 2
        until("two are wanted", lambda: len(site.changes) > changes, within_s=60)
        decided = site.records[-1]["at"]
        until("two serve", lambda: site.states == PAIR, within_s=240)
        time.sleep(1)
        served = timeline.first(PAIR, decided)
        rate = asking.per_s
    said = asking.said
    during = sorted(one.first_s for one in said if one.is_whole and decided <= one.sent_at <= served) or [0.0]
    print(  # noqa: T201
        f"{len(said)} asked, {sum(one.status != 200 for one in said)} refused, at {rate:g}/s when two were wanted;"
        f" two serve {served - decided:.1f} s after; first token of {len(during)} that came meanwhile:"
        f" median {during[len(during) // 2]:.1f} s, last {during[-1]:.1f} s"
    )
    return decided, served, said


def test_one_two_one_two(site: ScaledSite) -> None:
    """No stream breaks, no request is lost, and the number comes back within its window and not before."""
    rows = len(site.platform.usage("demo"))
    with Timeline(site) as timeline:
        decided, served, said = ramp(site, timeline)
        start_s = max(site.starts_s.values())
        assert served - decided <= patient(start_s + BEYOND_START_S), start_s
        quiet = time.time()
        until("one is on its way out", lambda: site.states != PAIR, within_s=IN_WINDOW_S + 120)
        assert time.time() - quiet >= IN_WINDOW_S - patient(30)
        until("it sleeps", lambda: site.states == ["ready", "sleeping"], within_s=120)
        until("its memory is free", lambda: len(site.platform.pids("engine")) == 1, within_s=60)
        again, woken, more = ramp(site, timeline)
        print("\n".join(timeline.lines()))  # noqa: T201
    assert woken - again <= patient(BEYOND_WAKE_S)
    assert [change[1:] for change in site.changes] == [(1, 2), (2, 1), (1, 2)]
    told = [*said, *more]
    assert {one.is_whole for one in told if one.status == 200} == {True}
    assert {one.status for one in told} <= {200, 429, 503}, "no connection breaks, and a refusal says when to come back"
    answered = sum(one.status == 200 for one in told)
    until("the ledger has each once", lambda: _answered(site, rows) == answered, within_s=60)


def _answered(site: ScaledSite, before: int) -> int:
    return sum(row["outcome"] == "ok" for row in site.platform.usage("demo")[before:])
