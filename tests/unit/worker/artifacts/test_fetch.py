"""Fetching: resumable at every byte, parallel but in order, honest about what is damaged and about a full disk."""

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.clock import SystemClock
from penstock.domain.errors import ArtifactRefused, StoreUnavailable
from penstock.domain.ids import VersionId
from penstock.domain.models.model import Artifact
from penstock.worker.artifacts.fetch import Fetcher, FetchProgress, Meter, digest_of
from tests.support.clock import ManualClock
from tests.support.models.versions import sha256

DATA = bytes(range(256)) * 4


class Source:
    """Blobs in memory, counting how they are read."""

    def __init__(self, *blobs: bytes) -> None:
        self.blobs = {sha256(blob): blob for blob in blobs}
        self.reads: list[tuple[int, int]] = []
        self.most_at_once = 0
        self._busy = 0
        self._lock = threading.Lock()

    def read_range(self, sha256: str, start: int, length: int) -> bytes:
        with self._lock:
            self._busy += 1
            self.most_at_once = max(self.most_at_once, self._busy)
            self.reads.append((start, length))
        try:
            return self.blobs[sha256][start : start + length]
        finally:
            with self._lock:
                self._busy -= 1

    def read_small(self, sha256: str) -> bytes:
        return self.blobs[sha256]

    def signature(self, digest: str) -> bytes | None:
        return None


def artifact(path: str, data: bytes) -> Artifact:
    return Artifact(path=path, sha256=sha256(data), size_bytes=len(data))


def fetcher(source: Source, segment_bytes: int = 100) -> Fetcher:
    return Fetcher(source, SystemClock(), segment_bytes=segment_bytes)


def test_files_of_all_sizes_arrive(tmp_path: Path) -> None:
    """Empty files, files of one segment and of many, and files in folders arrive as they are."""
    files = {"empty": b"", "small.json": b"{}", "1_Pooling/config.json": b"x" * 100, "model.safetensors": DATA}
    wanted = [artifact(path, data) for path, data in files.items()]
    fetcher(Source(*files.values())).fetch(wanted, tmp_path)
    found = {p.relative_to(tmp_path).as_posix(): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert found == files


@given(offset=st.integers(0, len(DATA)), segment_bytes=st.integers(1, 2000))
def test_a_restart_goes_on_where_the_last_run_ended(
    offset: int, segment_bytes: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever prefix is on disk, the same bytes come out and no byte of the prefix is fetched again."""
    folder = tmp_path_factory.mktemp("resume")
    (folder / "f.part").write_bytes(DATA[:offset])
    source = Source(DATA)
    fetcher(source, segment_bytes).fetch([artifact("f", DATA)], folder)
    assert (folder / "f").read_bytes() == DATA
    assert not (folder / "f.part").exists()
    assert sum(length for _, length in source.reads) == len(DATA) - offset


def test_a_damaged_prefix_is_fetched_again(tmp_path: Path) -> None:
    """A prefix with a wrong byte costs one more fetch of that file, not a failure."""
    (tmp_path / "f.part").write_bytes(b"\xff" + DATA[1:500])
    source = Source(DATA)
    seen: list[FetchProgress] = []
    fetcher(source).fetch([artifact("f", DATA)], tmp_path, seen.append)
    assert (tmp_path / "f").read_bytes() == DATA
    assert seen[-1].bytes_done == seen[-1].bytes_total == len(DATA)


def test_a_part_longer_than_its_file_is_fetched_again(tmp_path: Path) -> None:
    """Left-overs that can't be a beginning of the file are thrown away."""
    (tmp_path / "f.part").write_bytes(DATA + b"more")
    fetcher(Source(DATA)).fetch([artifact("f", DATA)], tmp_path)
    assert (tmp_path / "f").read_bytes() == DATA


@pytest.mark.parametrize("stored", [DATA[:-1] + b"\0", DATA[:-1], b""], ids=["altered", "shorter", "empty"])
def test_a_damaged_store_is_refused_by_file(tmp_path: Path, stored: bytes) -> None:
    """A blob that is not what its digest says is refused by name, and nothing of it looks like the file."""
    source = Source()
    source.blobs[sha256(DATA)] = stored
    with pytest.raises(ArtifactRefused, match=r"model\.safetensors came .* push the model again"):
        fetcher(source).fetch([artifact("model.safetensors", DATA)], tmp_path)
    assert not (tmp_path / "model.safetensors").exists()


def test_ranges_are_fetched_at_once_but_boundedly(tmp_path: Path) -> None:
    """Several ranges are on their way together, never more than the streams."""
    source = Source(DATA)
    together = threading.Barrier(3, timeout=10)
    read = source.read_range

    def slowly(sha256: str, start: int, length: int) -> bytes:
        if start < 300:
            together.wait()  # passes only when three come at once
        return read(sha256, start, length)

    source.read_range = slowly  # type: ignore[method-assign]
    Fetcher(source, SystemClock(), streams=3, segment_bytes=100).fetch([artifact("f", DATA)], tmp_path)
    assert (tmp_path / "f").read_bytes() == DATA
    assert source.most_at_once <= 3


def test_a_failing_store_leaves_a_prefix(tmp_path: Path) -> None:
    """When the store goes away in the middle, what came stays and the next run needs only the rest."""
    source = Source(DATA)
    read = source.read_range

    def failing(sha256: str, start: int, length: int) -> bytes:
        if start >= 500:
            raise StoreUnavailable("gone")
        return read(sha256, start, length)

    source.read_range = failing  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable, match="gone"):
        fetcher(source).fetch([artifact("f", DATA)], tmp_path)
    assert (tmp_path / "f.part").read_bytes() == DATA[:500]
    source.read_range = read  # type: ignore[method-assign]
    source.reads.clear()
    fetcher(source).fetch([artifact("f", DATA)], tmp_path)
    assert sum(length for _, length in source.reads) == len(DATA) - 500


def test_progress_tells_bytes_at_intervals(clock: ManualClock) -> None:
    """Bytes of an earlier run are counted, and a count that comes too soon waits for the next."""
    seen: list[FetchProgress] = []
    meter = Meter(total=1000, already=400, clock=clock, on_progress=seen.append)
    meter.add(0)
    clock.advance(2.0)
    meter.add(200)
    clock.advance(0.1)
    meter.add(1)  # too soon after the last one to tell
    clock.advance(1.9)
    meter.add(399)
    assert [p.bytes_done for p in seen] == [400, 600, 1000]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 256 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = (
        os.geteuid() == 0
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True, check=False
        ).returncode
    )
    if not mounted:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_said_in_words(small_disk: Path) -> None:
    """The error names the folder, what is needed and what is free; no file looks whole that is not."""
    data = os.urandom(1 << 20)
    with pytest.raises(StoreUnavailable, match=rf"no room in {small_disk}: [\d,]+ bytes needed, [\d,]+ free"):
        fetcher(Source(data), segment_bytes=1 << 16).fetch([artifact("f", data)], small_disk)
    assert not (small_disk / "f").exists()
    part = (small_disk / "f.part").read_bytes()
    assert part == data[: len(part)]


@pytest.mark.parametrize(
    ("version", "signed", "found"),
    [
        (f"toy@{'ab' * 32}", (), "ab" * 32),
        ("toy@abab", ("ab" * 32,), "ab" * 32),
        ("toy@abab", (), ""),
        ("toy@abab", ("ab" * 32, "abab" + "c" * 60), ""),
        ("toy", ("ab" * 32,), ""),
    ],
)
def test_a_version_is_fetched_by_the_one_digest_that_its_name_fits(
    version: str, signed: tuple[str, ...], found: str
) -> None:
    """A whole digest needs no store; the beginning of one must fit exactly one signed version."""
    if found:
        assert digest_of(VersionId(version), lambda _: signed) == found
        return
    with pytest.raises(ArtifactRefused, match=f"names {len(signed) if '@' in version else 0} signed versions"):
        digest_of(VersionId(version), lambda _: signed)
