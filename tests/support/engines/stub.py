"""A fast stand-in for an engine behind its gate: enough of vLLM's wire to drive a gateway at full speed.

In process: ``async with StubEngine() as stub: stub.url``. As a process: ``python -m tests.support.engines.stub`` prints
``{"url": ...}`` and is steered over HTTP: ``POST /stub/behave`` with a ``Behaviour`` as JSON, ``GET /stub/stats``,
``GET /stub/made``, ``POST /stub/forget``. It imports nothing of penstock, for the benchmark uses it too.
"""

import argparse
import asyncio
import os
import signal
import sys
from dataclasses import asdict
from typing import Any, Self, cast

import httptools
import msgspec
import uvloop

from tests.support.engines.wire import INSTEAD, TOKEN, USAGE, Behaviour, Mode, Stats, chunk, events, max_tokens, more_of

__all__ = ["Behaviour", "Mode", "Stats", "StubEngine"]


class StubEngine:
    def __init__(self, behaviour: Behaviour | None = None, *, worker: str = "w-stub", prompt_tokens: int = 11) -> None:
        """Answer as ``behaviour`` says, with this many prompt tokens in every usage."""
        self.behaviour = behaviour or Behaviour()
        self.worker = worker
        self.prompt_tokens = prompt_tokens
        self.stats = Stats()
        self.made: dict[str, int] = {}  # tokens in all attempts, of the first requests by id
        self.ended: dict[str, int] = {}  # tokens of the last attempt, of the first requests by id
        self.url = ""
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()

    async def start(self, port: int = 0, host: str = "127.0.0.1") -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), host, port, backlog=1024)
        self.url = f"http://{host}:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.die()
        await asyncio.sleep(0)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def close_idle(self) -> None:
        """Close the connections that wait for a request, as a keep-alive timeout does."""
        for connection in list(self._connections):
            if connection.is_idle:
                connection.die(gently=True)

    def used(self, asked: bytes) -> bytes:
        """Answer what a gateway asks: what its requests took, those that run and those that ended."""
        running = {one.name: one.progress for one in self._connections if not one.is_idle}
        found = {}
        for name in msgspec.json.decode(asked)["requests"]:
            if name in running or name in self.ended:
                is_over = name not in running
                tokens = self.ended[name] if is_over else running[name]
                found[name] = self.count(tokens) | {"is_final": is_over}
        return msgspec.json.encode(found)

    def count(self, tokens: int) -> dict[str, object]:
        """Return one request's counts as a gate has them."""
        counts = {"prompt_tokens": self.prompt_tokens, "cached_tokens": 0, "output_tokens": tokens}
        return {**counts, "sequences": 1, "prompts": 1}

    def take(self) -> Behaviour:
        """Return the behaviour of the next request."""
        behaviour = self.behaviour
        if behaviour.times and behaviour.mode != "ok":
            behaviour.times -= 1
            if behaviour.times == 0:
                self.behaviour = Behaviour(step_ms=behaviour.step_ms, delay_ms=behaviour.delay_ms, load=behaviour.load)
        return behaviour


MOST_REMEMBERED = 10_000


class _Connection(asyncio.Protocol):
    """One client connection: one request after another."""

    def __init__(self, stub: StubEngine) -> None:
        self.stub = stub
        self.transport: asyncio.Transport | None = None
        self.parser = httptools.HttpRequestParser(self)
        self.url = self.body = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_idle, self.paused = True, False
        self.timer: asyncio.TimerHandle | asyncio.Handle | None = None
        self.left = self.sent = 0
        self.pending: list[bytes] = []
        self.include_usage = False
        self.counts, self.began_at, self.step_s = True, 0.0, 0.0

    @property
    def name(self) -> str:
        return dict(self.headers).get(b"x-request-id", b"").decode()

    @property
    def progress(self) -> int:
        """How many tokens the answer has by now; those of a whole one are made at its pace."""
        if not self.step_s:
            return self.sent
        return min(self.left, int((asyncio.get_running_loop().time() - self.began_at) / self.step_s))

    # -- asyncio -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.stub._connections.add(self)
        self.stub.stats.connections += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self.stub._connections.discard(self)
        if not self.is_idle:
            self._over(aborted=True)
        self.transport = None

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def die(self, *, gently: bool = False) -> None:
        if self.transport is not None:
            if gently:
                self.transport.close()
            else:
                self.transport.abort()

    # -- httptools ---------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self.url, self.headers, self.body, self.sent, self.left, self.step_s = b"", [], b"", 0, 0, 0.0

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        path = self.url.decode()
        if path.startswith("/stub/") or path in ("/health", "/penstock/load", "/penstock/usage"):
            self._control(path)
            return
        stub, stats = self.stub, self.stub.stats
        self.is_idle = False
        stats.requests += 1
        stats.running += 1
        stats.peak = max(stats.peak, stats.running)
        body = msgspec.json.decode(self.body)
        stats.last_raw = self.body
        stats.last_body, stats.last_headers = body, {k.decode().lower(): v.decode() for k, v in self.headers}
        behaviour = stub.take().met_by(body)
        self.counts = behaviour.counts
        if behaviour.mode == "freeze":
            return
        if behaviour.mode == "reset":
            self.die()
            return
        if behaviour.delay_ms:
            loop = asyncio.get_running_loop()
            self.timer = loop.call_later(behaviour.delay_ms / 1e3, self._answer, path, body, behaviour)
        else:
            self._answer(path, body, behaviour)

    # -- answers -----------------------------------------------------------------------

    def _answer(self, path: str, body: dict[str, Any], behaviour: Behaviour) -> None:
        self.timer = None
        if behaviour.mode == "refuse":
            told = msgspec.json.encode({"error": {"retry_after_s": behaviour.wait_s, "reason": behaviour.why}})
            said = told if behaviour.wait_s else b'{"error":"refused"}'
            self._unary(503, said, behaviour, extra=b"x-penstock-refused: %b\r\n" % behaviour.reason.encode())
        elif behaviour.mode == "error":
            message = f"stub says {behaviour.status}"
            error = {"error": {"message": message, "type": "StubError", "param": "messages", "code": behaviour.status}}
            self._unary(behaviour.status, msgspec.json.encode(error), behaviour)
        elif body.get("stream") and behaviour.mode != "whole":
            self._stream(path, body, behaviour)
        elif behaviour.mode == "die_before_token":
            self._write(self._head(200, b"content-type: application/json\r\ncontent-length: 1000\r\n", behaviour))
            self.die(gently=True)
        elif behaviour.whole_step_ms and not path.endswith("embeddings"):
            self._decode(path, body, behaviour)
        else:
            self._whole(path, body, behaviour)

    def _decode(self, path: str, body: dict[str, Any], behaviour: Behaviour) -> None:
        """Take the time that the tokens of a whole answer take."""
        loop = asyncio.get_running_loop()
        self.left, self.step_s, self.began_at = max_tokens(body), behaviour.whole_step_ms / 1e3, loop.time()
        self.timer = loop.call_later(self.left * self.step_s, self._whole, path, body, behaviour)

    def _whole(self, path: str, body: dict[str, Any], behaviour: Behaviour) -> None:
        self.timer, self.step_s = None, 0.0
        answer = self._complete(path, body)
        self._unary(200, answer, behaviour, b"", **({"used": self._used()} if behaviour.counts else {}))

    def _used(self) -> dict[str, object]:
        counts = {"prompt_tokens": self.stub.prompt_tokens, "output_tokens": self.sent}
        return {**counts, "cached_tokens": 0, "sequences": 1, "prompts": 1}

    def _head(self, status: int, headers: bytes, behaviour: Behaviour, **parts: object) -> bytes:
        report = msgspec.json.encode({"load": behaviour.load, **behaviour.report, **parts})
        own = b"x-penstock-report: %b\r\nx-penstock-worker: %b" % (report, self.stub.worker.encode())
        return b"HTTP/1.1 %d Stub\r\n%b%b\r\n\r\n" % (status, headers, own)

    def _unary(self, status: int, body: bytes, behaviour: Behaviour, extra: bytes = b"", **parts: object) -> None:
        head = b"content-type: application/json\r\ncontent-length: %d\r\n%b" % (len(body), extra)
        self._write(self._head(status, head, behaviour, **parts) + body)
        self._over()

    def _complete(self, path: str, body: dict[str, Any]) -> bytes:
        count, prompt = 0 if path.endswith("embeddings") else max_tokens(body), self.stub.prompt_tokens
        self.sent = count
        self.stub.stats.tokens += count
        text = b'"message":{"role":"assistant","content":"%b"}' if path.endswith("chat/completions") else b'"text":"%b"'
        more = more_of(body, prompt, count, self.stub.behaviour.likeliest)
        answer = b'"choices":[{"index":0,%b,"finish_reason":"length"%b}]' % (text % (TOKEN * count), more)
        if path.endswith("embeddings"):
            answer = b'"data":[{"index":0,"object":"embedding","embedding":[0.1,0.2]}]'
        usage = b'"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d' % (prompt, prompt + count, count)
        head = b'{"id":"stub-1","object":"o","model":"%b",' % str(body.get("model")).encode()
        return head + answer + b',"usage":{' + usage + b',"prompt_tokens_details":null}}'

    def _stream(self, path: str, body: dict[str, Any], behaviour: Behaviour) -> None:
        head = b"content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n"
        self._write(self._head(200, head, behaviour))
        if behaviour.mode == "die_before_token":
            self.die(gently=True)
            return
        if behaviour.mode in INSTEAD:
            self._write(INSTEAD[behaviour.mode])
            self._over()
            return
        self.left = max_tokens(body)
        self.include_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        first, token, last = events(path, body)
        self._write(chunk(first) if first else b"")
        self._step(chunk(token) if behaviour.pieces == 1 else b"", token, last, behaviour)

    def _step(self, ready: bytes, token: bytes, last: bytes, behaviour: Behaviour) -> None:
        """Write one token and arrange for the next."""
        if self.transport is None:
            return
        loop = asyncio.get_running_loop()
        if self.paused:
            self.timer = loop.call_later(0.01, self._step, ready, token, last, behaviour)
            return
        if self._fails(behaviour):
            return
        self.left -= 1
        self.sent += 1
        self.stub.stats.tokens += 1
        if self.left <= 0:
            self._last(last)
            return
        if ready:
            self.transport.write(ready)
        else:
            self._write_in_pieces(token, behaviour.pieces)
        if behaviour.step_ms:
            self.timer = loop.call_later(behaviour.step_ms / 1e3, self._step, ready, token, last, behaviour)
        else:
            self.timer = loop.call_soon(self._step, ready, token, last, behaviour)

    def _fails(self, behaviour: Behaviour) -> bool:
        """Fail in the middle if that is the plan; True if no more events come."""
        if behaviour.mode == "ok" or self.sent < behaviour.after_tokens:
            return False
        if behaviour.mode == "die_after_token":
            self.die(gently=True)
        if behaviour.mode == "error_after_token":
            self._write(INSTEAD["error_in_stream"].replace(b"400", b"500"))
            self._over()
        return True

    def _write_in_pieces(self, event: bytes, pieces: int) -> None:
        size = max(1, len(event) // pieces)
        for at in range(0, len(event), size):
            self._write(chunk(event[at : at + size]))

    def _last(self, event: bytes) -> None:
        out = chunk(event)
        if self.include_usage:
            out += chunk(USAGE % (self.stub.prompt_tokens, self.stub.prompt_tokens + self.sent, self.sent))
        told = b": penstock-report %b\n" % msgspec.json.encode({"used": self._used()}) if self.counts else b""
        self._write(out + chunk(told + b"data: [DONE]\n\n") + b"0\r\n\r\n")
        self._over()

    def _write(self, data: bytes) -> None:
        if self.transport is not None:
            self.transport.write(data)

    def _over(self, *, aborted: bool = False) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.step_s:
            self.sent, self.step_s = self.progress, 0.0
            self.stub.stats.tokens += self.sent
        self.is_idle = True
        stats = self.stub.stats
        stats.running -= 1
        stats.aborted += aborted
        stats.finished += not aborted
        made, name = self.stub.made, self.name
        if len(made) < MOST_REMEMBERED:
            made[name] = made.get(name, 0) + self.sent
            self.stub.ended[name] = self.sent

    # -- control -----------------------------------------------------------------------

    def _control(self, path: str) -> None:
        stub = self.stub
        stats, answer = stub.stats, b"{}"
        if path == "/stub/behave":
            stub.behaviour = msgspec.json.decode(self.body, type=Behaviour)
        elif path == "/stub/forget":
            stub.stats, stub.made = Stats(running=stats.running, connections=stats.connections), {}
            stub.ended = {}
        elif path == "/stub/made":
            answer = msgspec.json.encode(stub.made)
        elif path == "/penstock/usage":
            self._tell(asyncio.get_running_loop().time() + msgspec.json.decode(self.body)["wait_s"])
            return
        elif path == "/penstock/load":
            load = {"running": stats.running, "waiting": 0, "queued_tokens": 0, "kv_used_ratio": 0.0}
            told = {"still_s": stub.behaviour.still_s, "draining": stub.behaviour.mode == "drain"}
            answer = msgspec.json.encode({**load, **told})
        else:
            answer = msgspec.json.encode(asdict(stats))
        self._say(answer)

    def _tell(self, until: float) -> None:
        """Answer what a gateway asks, as soon as all that it asks for has ended, or when it waits no longer."""
        loop, answer = asyncio.get_running_loop(), self.stub.used(self.body) if self.stub.behaviour.counts else b"[]"
        if b"false" in answer and loop.time() < until:
            loop.call_later(0.005, self._tell, until)
        else:
            self._say(answer)

    def _say(self, answer: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(answer)
        self._write(head + answer)


async def _main(arguments: argparse.Namespace) -> None:
    stub = StubEngine(Behaviour(step_ms=arguments.step_ms, delay_ms=arguments.delay_ms), worker=arguments.worker)
    await stub.start(arguments.port)
    sys.stdout.write(msgspec.json.encode({"url": stub.url, "pid": os.getpid()}).decode() + "\n")
    sys.stdout.flush()
    stopped = asyncio.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sign, stopped.set)
    await stopped.wait()
    await stub.stop()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--worker", default="w-stub")
    parser.add_argument("--step-ms", type=float, default=0.0)
    parser.add_argument("--delay-ms", type=float, default=0.0)
    arguments = parser.parse_args()
    uvloop.run(_main(arguments))


if __name__ == "__main__":
    main()
