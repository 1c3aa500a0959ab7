"""A full disk, and altered weights on it: what is refused says so in words, and with room, or a sound copy, everything
works again.
"""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path

import httpx
import pytest

from tests.integration.conftest import HomeMaker
from tests.support.failures.table import CANARY, FaultTable, leaks, log_folders
from tests.support.patience import until
from tests.support.platforms.books import Books
from tests.support.platforms.local import Platform
from tests.support.samples.chat_bodies import CHAT, chat

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(300)]

Mount = Callable[[Path, str], None]


@pytest.fixture(scope="module")
def small_disk() -> Iterator[Mount]:
    """Return a mount of a small file system; skip if that is not allowed."""
    mounted: list[Path] = []

    def mount(folder: Path, size: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, check=False
        )
        if done.returncode:
            pytest.skip("mounting a small file system is not allowed here")
        mounted.append(folder)

    yield mount
    for folder in reversed(mounted):
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Leave no byte free, of a small disk alone."""
    assert folder.is_mount()
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"\0" * 65536):
            pass
    with ballast.open("ab", buffering=0) as file, suppress(OSError):
        while file.write(b"\0"):
            pass
    assert os.statvfs(folder).f_bavail == 0
    return ballast


@pytest.mark.parametrize("size", ["4m", *(pytest.param(size, marks=pytest.mark.drill) for size in ("64k", "60m"))])
def test_a_start_without_room_says_so(
    homes: Path, shared_settings: dict[str, str], small_disk: Mount, size: str, faults: FaultTable
) -> None:
    """`penstock up` on a disk that is too small ends with a sentence about it, and leaves no process behind."""
    home = homes / f"small-{size}"
    small_disk(home, size)
    platform = Platform(home=home, models="smollm2", settings=shared_settings)
    if size == "64k":
        fill(home)
    began = time.monotonic()
    done = platform.run("up", "--no-question", check=False, within_s=120)
    told = done.stdout + done.stderr
    assert done.returncode == 1, told
    assert "space" in told.lower() or "room" in told.lower(), told
    assert "Traceback" not in told
    assert platform.survivors() == []
    faults.add(f"`penstock up` with a disk of {size}", "ends with a sentence that says so", time.monotonic() - began)


@pytest.fixture(scope="module")
def small(
    new_home: HomeMaker, shared_settings: dict[str, str], small_disk: Mount, leaked: list[str]
) -> Iterator[Platform]:
    """Yield a platform on a disk of its own, if that is allowed."""
    home = new_home("small")
    with suppress(pytest.skip.Exception):
        small_disk(home, "1400m")
    with Platform(home=home, models="smollm2", settings=shared_settings) as running:
        yield running
    leaked.extend(leaks(log_folders(home), CANARY))


def test_a_full_disk_under_a_running_platform(small: Platform, faults: FaultTable) -> None:
    """With no byte left every answer is whole or says what to do; with room again everything works, and each answer
    has its row.
    """
    if not small.home.is_mount():
        pytest.skip("mounting a small file system is not allowed here")
    books = Books(small)
    ballast = fill(small.home)
    answers: list[int] = []
    with small.http() as http:
        for _ in range(20):
            answer = http.post(CHAT, json=chat("Hi"))
            answers.append(answer.status_code)
            if answer.status_code != HTTPStatus.OK:
                assert answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE, answer.text
                assert answer.json()["error"]["code"] == "store_unavailable"
                assert "its disk is full" in answer.json()["error"]["message"]
        assert HTTPStatus.SERVICE_UNAVAILABLE in answers
        assert "Disk full: " in small.run("status", check=False).stdout
        done = small.run("tenants", "create", "late", check=False)
        assert "Traceback" not in done.stdout + done.stderr
        ballast.unlink()
        began = time.monotonic()
        until("requests are served", lambda: http.post(CHAT, json=chat("Hi")).is_success, within_s=30, every_s=0.2)
    served_s = time.monotonic() - began
    served = answers.count(HTTPStatus.OK) + 1
    # The log lost lines with the disk, so only the rows themselves tell when all of them have arrived.
    until(
        "the books balance, with a row for each answer",
        lambda: not books.findings(log_is_whole=False) and len(books.rows) == served,
        within_s=20,
    )
    until("operators can write", lambda: small.run("keys", "create", "demo", check=False).returncode == 0, within_s=60)
    refused = f"{answers.count(HTTPStatus.SERVICE_UNAVAILABLE)} of {len(answers)} requests refused in words (ledger)"
    faults.add(
        "disk full under a running platform", f"{refused}; with room again served after the seconds here", served_s
    )


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


def test_altered_weights_never_serve(small: Platform, faults: FaultTable) -> None:
    """A copy altered in the node's cache is fetched anew; altered in the store too, the worker refuses and says why."""
    # The disk was full before: this start shows that the platform outlives a full disk.
    assert small.stop() == 0
    for path in weights(small.home / "cache"):
        tamper(path)
    began = time.monotonic()
    small.start()
    with small.http() as http:
        assert http.post(CHAT, json=chat("Hi")).status_code == 200
    faults.add("weights altered in the node's cache", "found, fetched again, served", time.monotonic() - began)

    assert small.stop() == 0
    for folder in (small.home / "cache", small.home / "artifacts"):
        for path in weights(folder):
            tamper(path)
    began = time.monotonic()
    small.launch()
    try:
        until("a worker has failed", lambda: has_failed(small), within_s=90, every_s=0.2)
        until("the gateway refuses", lambda: is_refused(small), within_s=60, every_s=0.2)
        until("`penstock status` says why", lambda: says_why(small), every_s=1.0)
        faults.add("weights altered in the store", "refused, `penstock status` says why", time.monotonic() - began)
    finally:
        small.kill_all()


def is_refused(platform: Platform) -> bool:
    """Tell whether the gateway is up and has no capacity; ``penstock up`` drains it after some failed workers."""
    with suppress(OSError, httpx.HTTPError), platform.http() as http:
        answer = http.post(CHAT, json=chat("Hi"))
        assert answer.status_code == 503
        return answer.json()["error"]["code"] in {"no_capacity", "draining"}
    return False


def has_failed(platform: Platform) -> bool:
    with suppress(OSError, httpx.HTTPError):
        return any(worker["state"] == "failed" for worker in platform.act("GET", "/workers")["workers"])
    return False


def says_why(platform: Platform) -> bool:
    told = platform.run("status", check=False).stdout
    return "failed" in told and ("altered" in told or "SHA-256" in told or "sha256" in told.lower())
