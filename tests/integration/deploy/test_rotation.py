"""The platform's key is exchanged while everything runs."""

import asyncio
import time

import httpx
import pytest

from penstock.domain.fleet.worker import VERSION_HEADER, WORKER_HEADER
from penstock.tls.identity import Role
from tests.support.platforms.deployed import KEY, VERSION, WITHIN_S, WORKER, Place, worker_key

pytestmark = [pytest.mark.integration, pytest.mark.slow]
NEW = "ef" * 32


async def test_a_new_key_is_taken_without_a_restart(place: Place) -> None:
    """Finding 3.2: during an exchange both keys are valid, afterwards the new one, and API keys work throughout."""
    await asyncio.to_thread(_exchange, place)


def _exchange(place: Place) -> None:
    assert place.start("init").wait(60) == 0, place.log("init")
    controller, gateway = place.start("controller"), place.start("gateway")
    place.answers("controller", "ready", 200, controller)
    place.answers("gateway", "ready", 200, gateway)
    assert [_reports(place, key) for key in (KEY, NEW)] == [200, 401]
    place.mount("platform-key.previous", NEW)
    _until_said(place, "keys_changed", 1)
    assert [_reports(place, key) for key in (KEY, NEW)] == [200, 200]
    place.mount("platform-key", "half a ke")
    _until_said(place, "keys_not_changed", 1)
    assert [_reports(place, key) for key in (KEY, NEW)] == [200, 200]
    place.mount("platform-key", NEW)
    (place.root / "secrets/platform-key.previous").unlink()
    _until_said(place, "keys_changed", 2)
    assert [_reports(place, key) for key in (KEY, NEW)] == [401, 200]
    _is_known(place)
    for name in ("controller", "gateway"):
        assert KEY not in place.log(name)
        assert NEW not in place.log(name)


def _reports(place: Place, platform_key: str) -> int:
    """Return how the controller answers a worker that was started under this key."""
    bearer = worker_key(platform_key).split()[1]
    headers = {"authorization": f"Bearer {bearer}", WORKER_HEADER: WORKER, VERSION_HEADER: VERSION}
    report = {"worker": WORKER, "version": VERSION, "state": "fetching", "url": "https://127.0.0.1:1"}
    url = place.url("controller", "api") + "/internal/workers/heartbeat"
    return httpx.post(url, json=report, headers=headers, trust_env=False, verify=place.as_(Role.WORKER)).status_code


def _is_known(place: Place) -> None:
    """The operators' API key works at both, as it did before."""
    for url in (place.url("controller", "api") + "/admin/v1/keys", place.url("gateway", "public") + "/v1/models"):
        headers = {"authorization": f"Bearer {place.admin_key}"}
        answer = httpx.get(url, headers=headers, trust_env=False, verify=place.as_(Role.OPERATOR))
        assert answer.status_code == 200, answer.text


def _until_said(place: Place, event: str, times: int) -> None:
    """Wait until gateway and controller have logged it so often."""
    until = time.monotonic() + WITHIN_S
    for name in ("controller", "gateway"):
        while place.log(name).count(f'"{event}"') < times:
            assert time.monotonic() < until, place.log(name)
            time.sleep(0.1)
