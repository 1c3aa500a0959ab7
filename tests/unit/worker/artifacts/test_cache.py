"""The node's cache: least recently used first, never what is in use."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from penstock.domain.errors import StoreUnavailable
from penstock.worker.artifacts.cache import RESERVE_BYTES, NodeCache

A, B, C = ("a" * 64, "b" * 64, "c" * 64)


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture
def cache(tmp_path: Path) -> NodeCache:
    """Return a cache for 3000 bytes with copies of 1000, used in the order A, B, C."""
    cache = NodeCache(tmp_path / "cache", budget_bytes=3000)
    for used_at, digest in enumerate((A, B, C)):
        fill(cache, digest)
        cache.hold(digest).release()
        os.utime(tmp_path / f"cache/.{digest}.use", (used_at, used_at))
    return cache


def fill(cache: NodeCache, digest: str, size: int = 1000) -> None:
    cache.staging(digest).mkdir()
    (cache.staging(digest) / "f").write_bytes(bytes(size))
    cache.publish(digest)


def there(cache: NodeCache) -> list[str]:
    return [entry.digest for entry in cache.entries()]


def test_the_least_recently_used_gives_way(cache: NodeCache) -> None:
    """Room is made by removing the oldest first, and no more than needed."""
    cache.make_room(1000)
    assert there(cache) == [B, C]
    cache.hold(B).release()
    cache.make_room(2000)
    assert there(cache) == [B]


def test_a_copy_is_there_to_be_read_and_can_go(cache: NodeCache) -> None:
    """Finding 10: nobody writes to a published file by accident, and a copy is replaced and removed all the same."""
    assert (cache.folder(A) / "f").stat().st_mode & 0o777 == 0o444
    fill(cache, A, 500)
    cache.drop(A)
    assert there(cache) == [B, C]


def test_what_is_in_use_stays(cache: NodeCache) -> None:
    """A copy that a process holds is passed over, until it is let go."""
    with cache.hold(A), cache.hold(B):
        cache.make_room(1000)
        assert set(there(cache)) == {A, B}
    cache.make_room(2500)
    assert there(cache) == []


def test_a_hold_ends_with_its_process(cache: NodeCache) -> None:
    """What a process holds stays while it lives, and is free when it was killed."""
    program = (
        "import sys, time; from pathlib import Path; from penstock.worker.artifacts.cache import Hold;"
        "held = Hold(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
    )
    path = cache.folder(A).with_name(f".{A}.use")
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        cache.make_room(3000)
        assert there(cache) == [A]
        holder.kill()
        holder.wait()
    cache.make_room(3000)
    assert there(cache) == []


def test_a_version_above_the_budget_is_let_in_alone(cache: NodeCache) -> None:
    """Everything else gives way to a version that is larger than the budget."""
    cache.make_room(5000)
    assert there(cache) == []


def test_other_folders_are_left_alone(cache: NodeCache) -> None:
    """Only versions are removed, not what else is in the folder."""
    (cache.folder("demo")).mkdir()
    cache.make_room(3000)
    assert cache.folder("demo").is_dir()


def test_a_full_disk_evicts_and_then_says_so(cache: NodeCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies give way to a full disk too; where that is not enough, the error names folder, need and free space."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1, 1, RESERVE_BYTES + 10))
    with pytest.raises(StoreUnavailable, match=r"no room in .*cache: [\d,]+ bytes needed, [\d,]+ free; free some"):
        cache.make_room(100)
    assert there(cache) == []
    cache.make_room(10)


def test_a_damaged_copy_goes_even_while_in_use(cache: NodeCache) -> None:
    """Who has its files open keeps them; nobody else gets them."""
    with cache.hold(A), (cache.folder(A) / "f").open("rb") as file:
        cache.drop(A)
        assert A not in there(cache)
        assert len(file.read()) == 1000
    cache.drop(A)  # twice changes nothing


def test_what_killed_processes_left_is_swept(cache: NodeCache) -> None:
    """Half removed and half fetched copies go first, but not one that somebody fetches just now."""
    trash = cache.folder(".trash.1")
    for folder in (trash, cache.staging("d" * 64), cache.staging("e" * 64)):
        folder.mkdir()
    with cache.fetching("e" * 64):
        cache.make_room(1000)
        assert [trash.exists(), cache.staging("d" * 64).exists(), cache.staging("e" * 64).exists()] == [
            False,
            False,
            True,
        ]
    assert there(cache) == [B, C]
