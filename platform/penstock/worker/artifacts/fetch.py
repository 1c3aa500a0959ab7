"""Fetches files by digest: parallel ranges, written and hashed in order.

Trade-off: ranges fetched ahead wait in memory (at most ``streams + 1``). In return an unfinished file is always a
prefix: it can be resumed, and hashed while it is written.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from penstock.domain.clock import Clock
from penstock.domain.errors import ArtifactRefused
from penstock.domain.ids import VersionId
from penstock.domain.models.model import Artifact, is_sha256
from penstock.worker.artifacts.parts import Part, bytes_there

REPORT_EVERY_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchProgress:
    bytes_done: int
    bytes_total: int


OnProgress = Callable[[FetchProgress], None]


def silent(_: FetchProgress) -> None: ...


class Meter:
    def __init__(self, *, total: int, already: int, clock: Clock, on_progress: OnProgress) -> None:
        self._total, self._done, self._clock, self._on_progress = total, already, clock, on_progress
        self._reported_at = float("-inf")

    def add(self, count: int) -> None:
        """Count fetched bytes; a negative count withdraws damaged ones."""
        self._done += count
        now = self._clock.monotonic()
        if now - self._reported_at >= REPORT_EVERY_S or self._done >= self._total:
            self._reported_at = now
            self._on_progress(FetchProgress(bytes_done=self._done, bytes_total=self._total))


class ArtifactSource(Protocol):
    """Content-addressed; callers hash its bytes before they trust them."""

    def read_range(self, sha256: str, start: int, length: int) -> bytes:
        """Return up to ``length`` bytes; raises ``ArtifactRefused`` for an unknown blob."""
        ...

    def read_small(self, sha256: str) -> bytes: ...

    def signature(self, digest: str) -> bytes | None: ...


class SignatureVerifier(Protocol):
    def verify(self, folder: Path, signature: bytes) -> None:
        """Every file is signed and unchanged and none is extra, else ``ArtifactRefused``."""
        ...


def digest_of(version: VersionId, signed: Callable[[str], Sequence[str]]) -> str:
    """Raises ``ArtifactRefused`` unless the name fits exactly one."""
    _, _, digits = version.partition("@")
    found = (digits,) if is_sha256(digits) else signed(digits) if digits else ()
    if len(found) != 1:
        raise ArtifactRefused(f"{version} names {len(found)} signed versions in the artifact store")
    return found[0]


SEGMENT_BYTES = 8 << 20
STREAMS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    file: Artifact
    start: int
    length: int

    @property
    def is_last(self) -> bool:
        return self.start + self.length == self.file.size_bytes


def segments(files: Iterable[Artifact], folder: Path, segment_bytes: int) -> Iterator[Segment]:
    """Missing ranges of each file, in order; a complete file yields an empty last range."""
    for file in files:
        start = bytes_there(folder, file)
        while True:
            length = min(segment_bytes, file.size_bytes - start)
            yield Segment(file=file, start=start, length=length)
            start += length
            if start >= file.size_bytes:
                break


class Fetcher:
    def __init__(
        self, source: ArtifactSource, clock: Clock, *, streams: int = STREAMS, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        self._source, self._clock = source, clock
        self._streams, self._segment_bytes = streams, segment_bytes

    def fetch(self, files: Sequence[Artifact], folder: Path, on_progress: OnProgress = silent) -> None:
        """A file with a wrong digest is fetched once more from its start: an earlier run or the network may have
        damaged it. Wrong twice means a damaged store: ``ArtifactRefused``.
        """
        missing = [file for file in files if not (folder / file.path).is_file()]
        total = sum(file.size_bytes for file in files)
        already = sum(bytes_there(folder, file) for file in files)
        meter = Meter(total=total, already=already, clock=self._clock, on_progress=on_progress)
        damaged = self._bring(missing, folder, meter)
        for file in damaged:
            meter.add(-file.size_bytes)
        damaged = self._bring(damaged, folder, meter)
        if damaged:
            raise ArtifactRefused(
                f"{damaged[0].path} came from the artifact store with another SHA-256 than its manifest names "
                f"({damaged[0].sha256}): the stored blob is damaged or was altered; push the model again"
            )

    def _bring(self, files: Sequence[Artifact], folder: Path, meter: Meter) -> list[Artifact]:
        """Fetch the files; return those with a wrong digest."""
        wrong: list[Artifact] = []
        part: Part | None = None
        try:
            for segment, data in self._ahead(segments(files, folder, self._segment_bytes)):
                part = part or Part(folder, segment.file)
                part.append(data)
                meter.add(len(data))
                if segment.is_last:
                    wrong += [] if part.finish() else [segment.file]
                    part.close()
                    part = None
        finally:
            if part is not None:
                part.close()
        return wrong

    def _ahead(self, wanted: Iterator[Segment]) -> Iterator[tuple[Segment, bytes]]:
        on_the_way: deque[tuple[Segment, Future[bytes]]] = deque()
        pool = ThreadPoolExecutor(self._streams, thread_name_prefix="fetch")
        try:
            for segment in wanted:
                on_the_way.append((segment, pool.submit(self._read, segment)))
                if len(on_the_way) > self._streams:
                    first, data = on_the_way.popleft()
                    yield first, data.result()
            while on_the_way:
                first, data = on_the_way.popleft()
                yield first, data.result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _read(self, segment: Segment) -> bytes:
        if not segment.length:
            return b""
        return self._source.read_range(segment.file.sha256, segment.start, segment.length)
