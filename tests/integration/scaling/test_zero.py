"""No engine runs while nobody asks; requests that come then are held, and the first engine that wakes answers them."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.integration.conftest import HomeMaker
from tests.support.patience import patient, until
from tests.support.platforms.scaled import ScaledSite, scaled_site

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]

IDLE_S = 8.0
PLACES = 20
"""Requests that a gateway holds here; a tenant may have half of them."""


@pytest.fixture(scope="module")
def site(new_home: HomeMaker, shared_settings: dict[str, str]) -> Iterator[ScaledSite]:
    settings = {**shared_settings, "hold_requests": str(PLACES)}
    with scaled_site(new_home("zero"), settings, f"least: 0, most: 1, idle_s: {IDLE_S:g}") as running:
        yield running


def test_held_requests_are_answered_or_told_when_to_come_back(site: ScaledSite) -> None:
    """Eight are held and answered, one leaves and frees all that it had, and one beyond the bound is told a time."""
    idle_s = fall_asleep(site)
    assert idle_s >= IDLE_S - 1
    rows = len(site.platform.usage("demo"))
    with ThreadPoolExecutor(12) as pool:
        asked_at = time.time()
        asked = [pool.submit(site.ask, 16, stream=number % 2 == 0) for number in range(8)]
        until("eight are held", lambda: site.held[0] == 8, within_s=10)
        leaver = pool.submit(site.ask, 16, patience_s=3.0)
        until("nine are held", lambda: site.held[0] == 9, within_s=5)
        assert leaver.result().status == 0
        until("it frees its place and its lease", lambda: site.held == (8, 8), within_s=5)
        beyond = [pool.submit(site.ask, 16) for _ in range(4)]
        said = [one.result() for one in (*asked, *beyond)]
    woken_at = time.time()
    refused = [one for one in said if one.status != httpx.codes.OK]
    assert {one.status for one in refused} == {503}
    assert len(refused) == 8 + 4 - PLACES // 2
    assert all(one.is_whole for one in said if one.status == httpx.codes.OK)
    wait_s = max(float(one.retry_after) for one in refused)
    assert 0 < wait_s <= patient(60)
    assert site.states == ["ready"]
    (start_s,) = site.starts_s.values()
    first_s = max(one.sent_at + one.first_s for one in said if one.is_whole) - asked_at
    print(f"wake {start_s:.1f} s, told {wait_s:g} s, last first token after {first_s:.1f} s")  # noqa: T201
    assert first_s <= patient(start_s + 3)
    assert woken_at - asked_at < patient(60)
    until("the ledger has the answered ones", lambda: _answered(site, rows) == PLACES // 2, within_s=30)


def fall_asleep(site: ScaledSite) -> float:
    """Ask once, and return the seconds until it sleeps; no engine runs then."""
    assert site.ask(8).is_whole
    idle_s = until("it sleeps", lambda: site.states == ["sleeping"], within_s=IDLE_S + 60)
    until("its engine has ended", lambda: not site.platform.pids("engine"), within_s=30)
    return idle_s


def test_the_controller_is_killed_while_requests_are_held(site: ScaledSite) -> None:
    """Its successor learns of them within a second, wakes the version, and they are answered."""
    fall_asleep(site)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(site.ask, 16, stream=number % 2 == 0) for number in range(4)]
        until("they are held", lambda: site.held[0] == 4, within_s=10)
        site.platform.kill("controller")
        said = [one.result() for one in asked]
    assert [(one.status, one.is_whole) for one in said] == [(200, True)] * 4


def _answered(site: ScaledSite, before: int) -> int:
    return sum(row["outcome"] == "ok" for row in site.platform.usage("demo")[before:])
