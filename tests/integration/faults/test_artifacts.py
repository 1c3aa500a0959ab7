"""Weights that were altered never serve: the worker refuses, says why, and heals if a sound copy is left."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.support.failures.table import FaultTable
from tests.support.patience import until
from tests.support.platforms.local import Platform
from tests.support.samples.chat_bodies import CHAT, chat

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(300)]

StartPlatform = Callable[..., Platform]


def weights(folder: Path) -> list[Path]:
    """Return the largest file of each folder below: the weights."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size > 50 << 20]
    assert files, f"no weights below {folder}"
    return files


def tamper(path: Path) -> None:
    """Change one byte in the middle, in a copy that takes the file's place: it may be shared with others."""
    data = bytearray(path.resolve().read_bytes())
    data[len(data) // 2] ^= 1
    draft = path.with_name(f"{path.name}.draft")
    draft.write_bytes(data)
    draft.replace(path)


def test_altered_weights_never_serve(start_platform: StartPlatform, faults: FaultTable) -> None:
    """A copy altered in the node's cache is fetched anew; altered in the store too, the worker refuses and says why."""
    platform = start_platform()
    assert platform.stop() == 0
    for path in weights(platform.home / "cache"):
        tamper(path)
    began = time.monotonic()
    platform.start()
    with platform.http() as http:
        assert http.post(CHAT, json=chat("Hi")).status_code == 200
    faults.add("weights altered in the node's cache", "found, fetched again, served", time.monotonic() - began)

    assert platform.stop() == 0
    for folder in (platform.home / "cache", platform.home / "artifacts"):
        for path in weights(folder):
            tamper(path)
    began = time.monotonic()
    platform.launch()
    try:
        until("a worker has failed", lambda: has_failed(platform), within_s=90, every_s=0.2)
        until("the gateway refuses", lambda: is_refused(platform), within_s=60, every_s=0.2)
        until("`penstock status` says why", lambda: says_why(platform))
        faults.add("weights altered in the store", "refused, `penstock status` says why", time.monotonic() - began)
    finally:
        platform.kill_all()


def is_refused(platform: Platform) -> bool:
    """Tell whether the gateway is up and has no capacity; ``penstock up`` drains it after some failed workers."""
    with suppress(OSError, httpx.HTTPError), platform.http() as http:
        answer = http.post(CHAT, json=chat("Hi"))
        assert answer.status_code == 503
        return answer.json()["error"]["code"] in {"no_capacity", "draining"}
    return False


def has_failed(platform: Platform) -> bool:
    with suppress(OSError, httpx.HTTPError):
        head = {"authorization": f"Bearer {platform.admin_key}"}
        told = httpx.get(f"{platform.controller_url}/admin/v1/workers", headers=head, trust_env=False)
        return any(worker["state"] == "failed" for worker in told.raise_for_status().json()["workers"])
    return False


def says_why(platform: Platform) -> bool:
    told = platform.run("status", check=False).stdout
    return "failed" in told and ("altered" in told or "SHA-256" in told or "sha256" in told.lower())
