"""A load generator that costs little itself: raw HTTP/1.1 over kept connections, timed at the first and last byte."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit


@dataclass
class Timed:
    """What came of a run: times in seconds."""

    done: int = 0
    failed: int = 0
    why: str = ""
    """The first failure, in the server's words."""
    first_byte_s: list[float] = field(default_factory=list)
    whole_s: list[float] = field(default_factory=list)


def request_bytes(url: str, path: str, body: bytes, key: str) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nhost: {urlsplit(url).netloc}\r\nauthorization: Bearer {key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class _Caller(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self, timed: Timed, on_idle: Callable[["_Caller"], None]) -> None:
        self.transport: asyncio.Transport | None = None
        self._timed = timed
        self._on_idle = on_idle
        self._received = bytearray()
        self._began = 0.0
        self._expected = -1
        self._saw_first = False
        self._tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.transport = None
        self._fail("the connection was closed")

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()

    def call(self, request: bytes) -> None:
        """Send; the clock starts now."""
        self._received.clear()
        self._expected = -1
        self._saw_first = False
        self._tail = b""
        self._began = time.perf_counter()
        if self.transport is not None:
            self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        if self._expected == -1:
            data = self._after_head(data)
        if data:
            self._take(data)

    def _after_head(self, data: bytes) -> bytes:
        """Return what is there of the body; nothing until the head is whole and good."""
        self._received += data
        at = self._received.find(b"\r\n\r\n")
        if at < 0 or not self._read_head(bytes(self._received[:at]).lower()):
            return b""
        return bytes(self._received[at + 4 :])

    def _take(self, data: bytes) -> None:
        if not self._saw_first:
            self._saw_first = True
            self._timed.first_byte_s.append(time.perf_counter() - self._began)
        if self._expected >= 0:
            self._expected -= len(data)
            if self._expected <= 0:
                self._finish()
            return
        self._tail = (self._tail + data)[-7:]
        if self._tail.endswith(b"\r\n0\r\n\r\n"):
            self._finish()

    def _read_head(self, head: bytes) -> bool:
        if not head.startswith(b"http/1.1 200"):
            self._fail(bytes(self._received[:400]).decode("utf-8", "replace"))
            self.close()
            return False
        length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
        self._expected = int(length) if length else -2
        return True

    def _fail(self, why: str) -> None:
        if not self._began:
            return
        self._began = 0.0
        self._timed.failed += 1
        self._timed.why = self._timed.why or why
        self._on_idle(self)

    def _finish(self) -> None:
        self._timed.done += 1
        self._timed.whole_s.append(time.perf_counter() - self._began)
        self._began = 0.0
        self._on_idle(self)


async def _connected(url: str, timed: Timed, on_idle: Callable[[_Caller], None]) -> _Caller:
    where = urlsplit(url)
    loop = asyncio.get_running_loop()
    _, caller = await loop.create_connection(
        lambda: _Caller(timed, on_idle), str(where.hostname), int(where.port or 80)
    )
    return caller


async def closed_loop(url: str, request: bytes, *, callers: int, seconds: float = 0.0, requests: int = 0) -> Timed:
    """Keep ``callers`` requests in flight for a time, or for a number of requests."""
    timed, over = Timed(), asyncio.Event()
    stop_at = time.perf_counter() + seconds if seconds else float("inf")
    flying = 0

    def again(caller: _Caller) -> None:
        nonlocal flying
        if (
            caller.transport is not None
            and time.perf_counter() < stop_at
            and (not requests or timed.done + flying <= requests)
        ):
            caller.call(request)
            return
        flying -= 1
        if flying == 0:
            over.set()

    open_ = [await _connected(url, timed, again) for _ in range(callers)]
    for caller in open_:
        flying += 1
        caller.call(request)
    await asyncio.wait_for(over.wait(), (seconds or 600) + 60)
    for caller in open_:
        caller.close()
    return timed


async def open_loop(targets: dict[str, tuple[str, bytes]], *, per_s: float, seconds: float) -> dict[str, Timed]:
    """Send to each target in turn at a fixed rate (all together ``len(targets) * per_s``), late or not."""
    timed = {name: Timed() for name in targets}
    idle: dict[str, list[_Caller]] = {name: [] for name in targets}
    for name, (url, _) in targets.items():
        idle[name] += [await _connected(url, timed[name], idle[name].append) for _ in range(64)]
    began, sent = time.perf_counter(), 0
    while sent < per_s * seconds * len(targets):
        for name, (url, request) in targets.items():
            wait = began + sent / (per_s * len(targets)) - time.perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            caller = idle[name].pop() if idle[name] else await _connected(url, timed[name], idle[name].append)
            if caller.transport is None:
                caller = await _connected(url, timed[name], idle[name].append)
            caller.call(request)
            sent += 1
    await asyncio.sleep(1.0)
    for callers in idle.values():
        for caller in callers:
            caller.close()
    return timed
