"""A full disk: starts and a running platform say so in words, and with room again everything works again."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.support.failures.table import FaultTable
from tests.support.patience import until
from tests.support.platforms.books import Books
from tests.support.platforms.local import Platform
from tests.support.samples.chat_bodies import CHAT, chat

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(300)]

Mount = Callable[[Path, str], None]


@pytest.fixture
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


def test_a_full_disk_under_a_running_platform(
    homes: Path, shared_settings: dict[str, str], small_disk: Mount, faults: FaultTable
) -> None:
    """With no byte left every answer is whole or says what to do, and with room again everything works."""
    home = homes / "small"
    small_disk(home, "900m")
    with Platform(home=home, models="smollm2", settings=shared_settings) as platform:
        outlives_a_full_disk(platform, faults)
        assert platform.stop() == 0
        platform.start()
        with platform.http() as http:
            assert http.post(CHAT, json=chat("Hi")).status_code == 200


def outlives_a_full_disk(platform: Platform, faults: FaultTable) -> None:
    """Fill the disk, see every answer be whole or a refusal in words, make room again; each answer has its row."""
    books = Books(platform)
    ballast = fill(platform.home)
    answers: list[int] = []
    with platform.http() as http:
        for _ in range(20):
            answer = http.post(CHAT, json=chat("Hi"))
            answers.append(answer.status_code)
            if answer.status_code != HTTPStatus.OK:
                assert answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE, answer.text
                assert answer.json()["error"]["code"] == "store_unavailable"
                assert "its disk is full" in answer.json()["error"]["message"]
        assert HTTPStatus.SERVICE_UNAVAILABLE in answers
        assert "Disk full: " in platform.run("status", check=False).stdout
        done = platform.run("tenants", "create", "late", check=False)
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
    until(
        "operators can write", lambda: platform.run("keys", "create", "demo", check=False).returncode == 0, within_s=60
    )
    refused = f"{answers.count(HTTPStatus.SERVICE_UNAVAILABLE)} of {len(answers)} requests refused in words (ledger)"
    faults.add(
        "disk full under a running platform", f"{refused}; with room again served after the seconds here", served_s
    )
