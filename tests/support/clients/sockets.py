"""HTTP over a bare socket: what no proper client sends, and readers that leave, stall or crawl."""

import http.client
import json
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

DONE = "[DONE]"


@dataclass(frozen=True, kw_only=True)
class Told:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self) -> Any:  # noqa: ANN401  whatever was said
        return json.loads(self.body)


class Wire:
    """One connection. A small ``receive_buffer_bytes`` makes a reader that is felt as slow at once.

    With small segments its sender keeps less on the way, too: the kernel sizes its buffer in segments.
    """

    def __init__(
        self, url: str, *, timeout_s: float = 60.0, receive_buffer_bytes: int = 0, segment_bytes: int = 0
    ) -> None:
        where = urlsplit(url)
        self.host = where.netloc
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer_bytes:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        if segment_bytes:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, segment_bytes)
        self.sock.settimeout(timeout_s)
        self.sock.connect((where.hostname or "", where.port or 80))
        self._answer: http.client.HTTPResponse | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def post(self, path: str, body: object, *, key: str = "", headers: Mapping[str, str] | None = None) -> None:
        """Send a whole request; the answer is not waited for."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {"content-type": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
        self.send(self.head("POST", path, {**named, **(headers or {}), "content-length": str(len(raw))}) + raw)

    def head(self, method: str, path: str, headers: Mapping[str, str]) -> bytes:
        """Return request line and headers as bytes."""
        lines = [f"{method} {path} HTTP/1.1", f"host: {self.host}", *(f"{k}: {v}" for k, v in headers.items())]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def answer(self) -> http.client.HTTPResponse:
        """Wait for the head of the answer."""
        if self._answer is None:
            self._answer = http.client.HTTPResponse(self.sock)
            self._answer.begin()
        return self._answer

    def whole(self) -> Told:
        answer = self.answer()
        return Told(status=answer.status, headers=answer.headers, body=answer.read())

    def events(self) -> Iterator[str]:
        """Yield what stands behind ``data:`` in each event as it comes; a broken stream raises."""
        for line in self.answer():
            if line.startswith(b"data:"):
                yield line[5:].strip().decode()

    def is_cut(self, *, within_s: float) -> bool:
        """Tell whether the other side closes the connection in time; what it says before that is dropped."""
        end = time.monotonic() + within_s
        self.sock.settimeout(0.2)
        while time.monotonic() < end:
            with suppress(TimeoutError):
                try:
                    if not self.sock.recv(65536):
                        return True
                except OSError as error:
                    if isinstance(error, TimeoutError):
                        raise
                    return True
        return False

    def leave(self, *, rudely: bool = False) -> None:
        """Close; ``rudely`` with a reset instead of a farewell."""
        if rudely:
            with suppress(OSError):
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if self._answer is not None:
            self._answer.close()
        self.sock.close()


@dataclass(kw_only=True)
class Stream:
    """A stream read in a thread of its own: its events, when they came, and how it ended."""

    url: str
    key: str
    body: Mapping[str, object]
    path: str = "/v1/chat/completions"
    status: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    done: bool = False
    """Whether ``[DONE]`` came."""
    cut: str = ""
    """How the connection broke, empty where it ended in good order."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Those of the answer."""
    says: Mapping[str, str] = field(default_factory=dict)
    """Headers of the request beside the usual ones."""
    _thread: threading.Thread | None = None

    def start(self) -> Self:
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        return self

    def join(self, within_s: float = 60.0) -> Self:
        assert self._thread is not None
        self._thread.join(within_s)
        assert not self._thread.is_alive(), f"the stream did not end within {within_s:g} s ({len(self.events)} events)"
        return self

    def _read(self) -> None:
        try:
            with Wire(self.url) as wire:
                wire.post(self.path, {**self.body, "stream": True}, key=self.key, headers=self.says)
                self.headers = dict(wire.answer().headers)
                self.status = wire.answer().status
                if self.status != http.client.OK:
                    self.events.append(wire.whole().json())
                    return
                for data in wire.events():
                    self._take(data)
        except (OSError, http.client.HTTPException) as error:
            self.cut = f"{type(error).__name__}: {error}"

    def _take(self, data: str) -> None:
        if data == DONE:
            self.done = True
            return
        self.times.append(time.monotonic())
        self.events.append(json.loads(data))

    @property
    def tokens(self) -> int:
        return sum(1 for event in self.events if _text(event))

    @property
    def error(self) -> dict[str, Any] | None:
        """The error that ended the answer, in band or instead of it."""
        return next((event["error"] for event in self.events if event.get("error")), None)

    @property
    def is_whole(self) -> bool:
        """True if it ended as a stream should: a finish reason, ``[DONE]``, no error."""
        finished = any(choice.get("finish_reason") for event in self.events for choice in event.get("choices", []))
        return self.done and finished and self.error is None and not self.cut

    @property
    def longest_gap_s(self) -> float:
        return max((b - a for a, b in zip(self.times, self.times[1:], strict=False)), default=0.0)

    @property
    def story(self) -> str:
        return (
            f"status {self.status}, {len(self.events)} events, done={self.done}, "
            f"error={self.error}, cut={self.cut or 'no'}"
        )


def _text(event: Mapping[str, Any]) -> bool:
    return any(choice.get("delta", choice).get("content", choice.get("text")) for choice in event.get("choices") or [])
