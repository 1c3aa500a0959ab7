"""What the gateway costs: CPU per request and per token, added latency, memory; against a stub engine, in one run.

Run: ``make bench-gateway``. It speaks HTTP only and knows the gateway from outside: its processes, its home, its port.
CPU is the gateway process's own account (``/proc/<pid>/stat``), so a busy machine changes the rates, hardly the costs.
"""

import argparse
import asyncio
import json
import os
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import uvloop

from loadtests import bench_home, rpc_client
from loadtests.load_client import Timed, closed_loop, open_loop, request_bytes

CHAT = "/v1/chat/completions"
CONCURRENCY = 32
STREAM_TOKENS = 100
READY_WITHIN_S = 120.0
"""On a busy machine; a quiet one takes three seconds."""
PROMPT = "Explain in two sentences why the sky is blue, and why sunsets are red. Then name three cities by the sea."


@dataclass(frozen=True)
class Row:
    """One line of the table; ``limit`` 0: only told."""

    what: str
    value: float
    unit: str
    limit: float = 0.0

    @property
    def verdict(self) -> str:
        if not self.limit:
            return ""
        return "ok" if self.value <= self.limit else "MISSED"


@dataclass(frozen=True)
class Process:
    """A running process: its address and what it has used."""

    url: str
    pid: int

    def cpu_s(self) -> float:
        """Return user and system time of the process so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_mb(self) -> float:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def stub_engine() -> AbstractContextManager[Process]:
    return _server("tests.support.engines.stub", "url")


def empty_rpc() -> AbstractContextManager[Process]:
    """Run a server of grpc.aio that does nothing."""
    return _server("loadtests.rpc_empty", "address")


def empty_http() -> AbstractContextManager[Process]:
    """Run a server of uvicorn that does nothing."""
    return _server("loadtests.http_empty", "url")


@contextmanager
def _server(module: str, place: str) -> Iterator[Process]:
    """Run a module whose first line tells its address and process as JSON."""
    command = [sys.executable, "-m", module]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=bench_home.REPOSITORY) as process:
        try:
            assert process.stdout is not None  # noqa: S101  piped above
            told = json.loads(process.stdout.readline())
            yield Process(told[place], told["pid"])
        finally:
            process.terminate()


@contextmanager
def gateway(
    command: list[str], home: bench_home.Home, more: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Process]:
    """Run the gateway on a free port, told `more`, and wait until it is ready."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    own = {
        "PENSTOCK_HOME": str(home.root),
        "PENSTOCK_PORT": str(port),
        "PENSTOCK_DATABASE_URL": "postgresql://nobody@127.0.0.1:9/nowhere",
        **more,
    }
    with (
        (home.root / "gateway.log").open("wb") as log,
        subprocess.Popen(command, env={**os.environ, **own}, stdout=log, stderr=log) as process,
    ):
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_until_ready(url, process)
            yield Process(url, process.pid)
        finally:
            process.terminate()


def _wait_until_ready(url: str, process: "subprocess.Popen[bytes]") -> None:
    give_up_at = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < give_up_at:
        if process.poll() is not None:
            raise SystemExit(f"bench: the gateway ended with status {process.returncode}")
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=1):  # noqa: S310  our own
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"bench: the gateway was not ready within {READY_WITHIN_S:g} s")


def behave(stub: Process, **behaviour: object) -> None:
    request = urllib.request.Request(f"{stub.url}/stub/behave", json.dumps(behaviour).encode())  # noqa: S310  our own
    urllib.request.urlopen(request, timeout=5).read()  # noqa: S310


def chat(url: str, key: str, *, tokens: int, stream: bool, model: str = "bench") -> bytes:
    body = {
        "model": model,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": PROMPT}],
        "max_tokens": tokens,
        "stream": stream,
    }
    return request_bytes(url, CHAT, json.dumps(body).encode(), key)


@dataclass(frozen=True)
class Bench:
    stub: Process
    gateway: Process
    key: str
    neighbours_key: str
    seconds: float
    grpc: str
    """Where the gateway takes gRPC."""

    async def unary(self) -> Iterator[Row]:
        """CPU per unary request at saturation."""
        timed: dict[str, Timed] = {}
        cost: dict[str, float] = {}
        for name, target in (("direct", self.stub), ("gateway", self.gateway)):
            request = chat(target.url, self.key, tokens=16, stream=False)
            await closed_loop(target.url, request, callers=CONCURRENCY, seconds=1.0)
            before = target.cpu_s()
            timed[name] = await closed_loop(target.url, request, callers=CONCURRENCY, seconds=self.seconds)
            cost[name] = (target.cpu_s() - before) / max(1, timed[name].done) * 1e6
        return iter(
            (
                Row("unary chat: requests/s direct", timed["direct"].done / self.seconds, "1/s"),
                Row("unary chat: requests/s through the gateway", timed["gateway"].done / self.seconds, "1/s"),
                Row("unary chat: the stub's own CPU per request", cost["direct"], "µs"),
                Row("unary chat: gateway CPU per request", cost["gateway"], "µs", 500.0),
                Row("unary chat: failures", timed["gateway"].failed, "", 0.5),
            )
        )

    async def neighbours(self) -> Iterator[Row]:
        """CPU per unary request of two tenants: beside a neighbour the loop has shorter turns."""
        url = self.gateway.url
        requests = [chat(url, key, tokens=16, stream=False) for key in (self.key, self.neighbours_key)]
        before = self.gateway.cpu_s()
        loops = [closed_loop(url, each, callers=CONCURRENCY // 2, seconds=self.seconds) for each in requests]
        timed = await asyncio.gather(*loops)
        cost = (self.gateway.cpu_s() - before) / max(1, sum(one.done for one in timed)) * 1e6
        return iter(
            (
                Row("unary chat of two tenants: gateway CPU per request", cost, "µs"),
                Row("unary chat of two tenants: failures", sum(one.failed for one in timed), "", 0.5),
            )
        )

    async def streams(self, step_ms: float, name: str) -> Iterator[Row]:
        """CPU per streamed token.

        The target holds for a busy gateway. A token that comes alone pays for its own wake-up, read and write in the
        kernel,
        which no gateway can share out: that row stands beside the stub's cost of the same.
        """
        behave(self.stub, step_ms=step_ms)
        request = chat(self.gateway.url, self.key, tokens=STREAM_TOKENS, stream=True)
        stub_before, before = self.stub.cpu_s(), self.gateway.cpu_s()
        timed = await closed_loop(self.gateway.url, request, callers=CONCURRENCY, seconds=self.seconds)
        used, stub_used = self.gateway.cpu_s() - before, self.stub.cpu_s() - stub_before
        behave(self.stub)
        tokens = max(1, timed.done * STREAM_TOKENS)
        return iter(
            (
                Row(f"streams, {name}: tokens/s", tokens / self.seconds, "1/s"),
                Row(f"streams, {name}: the stub's own CPU per token", stub_used / tokens * 1e6, "µs"),
                Row(f"streams, {name}: gateway CPU per token", used / tokens * 1e6, "µs", 0.0 if step_ms else 10.0),
                Row(f"streams, {name}: failures", timed.failed, "", 0.5),
            )
        )

    async def rpc(self) -> Iterator[Row]:
        """The same completions over HTTP and over gRPC, in turn: gateway CPU per request, and per streamed token."""
        message = {tokens: rpc_client.request("bench", PROMPT, tokens) for tokens in (16, STREAM_TOKENS)}
        rows = []
        for is_stream, tokens, what in ((False, 16, "request"), (True, STREAM_TOKENS, "token")):
            body = {"model": "bench", "prompt": PROMPT, "max_tokens": tokens, "stream": is_stream}
            plain = request_bytes(self.gateway.url, "/v1/completions", json.dumps(body).encode(), self.key)
            before = self.gateway.cpu_s()
            web = await closed_loop(self.gateway.url, plain, callers=CONCURRENCY, seconds=self.seconds)
            between = self.gateway.cpu_s()
            rpc = await rpc_client.closed_loop(
                self.grpc, self.key, message[tokens], callers=CONCURRENCY, seconds=self.seconds, is_stream=is_stream
            )
            each = tokens if is_stream else 1
            http_us = (between - before) / max(1, web.done * each) * 1e6
            rpc_us = (self.gateway.cpu_s() - between) / max(1, rpc.done * each) * 1e6
            rows += [
                Row(f"completions over HTTP: gateway CPU per {what}", http_us, "µs"),
                Row(f"the same over gRPC: gateway CPU per {what}", rpc_us, "µs", 25.0 if is_stream else 0.0),
                Row(f"the same over gRPC: times HTTP's, per {what}", rpc_us / http_us, "x"),
                Row(f"the same over gRPC: failures, by {what}", rpc.failed, "", 0.5),
            ]
            if not is_stream:
                rows.append(Row("the same over gRPC: more than HTTP, per request", rpc_us - http_us, "µs", 250.0))
                floor_us = await self._empty(message[tokens], json.dumps(body).encode())
                rows.append(Row("empty servers: grpc.aio's more than uvicorn's, per request", floor_us, "µs"))
        return iter(rows)

    async def _empty(self, message: bytes, body: bytes) -> float:
        """Return what an empty call costs one library more than the other: no gateway of these libraries costs
        less.
        """
        with empty_rpc() as rpc, empty_http() as web:
            request = request_bytes(web.url, "/v1/completions", body, self.key)
            await rpc_client.closed_loop(rpc.url, self.key, message, callers=CONCURRENCY, seconds=1.0)
            before = rpc.cpu_s(), web.cpu_s()
            calls = await rpc_client.closed_loop(rpc.url, self.key, message, callers=CONCURRENCY, seconds=self.seconds)
            asked = await closed_loop(web.url, request, callers=CONCURRENCY, seconds=self.seconds)
            rpc_s, web_s = rpc.cpu_s() - before[0], web.cpu_s() - before[1]
            return (rpc_s / max(1, calls.done) - web_s / max(1, asked.done)) * 1e6

    async def first_token(self) -> Iterator[Row]:
        """Added time to first token at half of what the gateway can do, direct and through the gateway in turn."""
        targets = {
            "direct": (self.stub.url, chat(self.stub.url, self.key, tokens=4, stream=True)),
            "gateway": (self.gateway.url, chat(self.gateway.url, self.key, tokens=4, stream=True)),
        }
        most = await closed_loop(*targets["gateway"], callers=CONCURRENCY, seconds=self.seconds / 2)
        per_s = most.done / self.seconds
        timed = await open_loop(targets, per_s=per_s, seconds=self.seconds)
        direct, through = (_quantiles(timed[name].first_byte_s) for name in ("direct", "gateway"))
        return iter(
            (
                Row("first token: rate (half load)", per_s, "1/s"),
                Row("first token: direct p50", direct[0], "ms"),
                Row("first token: direct p99", direct[1], "ms"),
                Row("first token: added p50", through[0] - direct[0], "ms", 1.0),
                Row("first token: added p99", through[1] - direct[1], "ms", 5.0),
                Row("first token: failures", timed["gateway"].failed, "", 0.5),
            )
        )

    async def memory(self, streams: int) -> Iterator[Row]:
        """Resident memory over many short streams."""
        request = chat(self.gateway.url, self.key, tokens=10, stream=True)
        await closed_loop(self.gateway.url, request, callers=64, requests=streams // 10)
        before = self.gateway.rss_mb()
        await closed_loop(self.gateway.url, request, callers=64, requests=streams)
        after = self.gateway.rss_mb()
        return iter(
            (
                Row("memory: resident", after, "MB"),
                Row(f"memory: growth over {streams} streams", after - before, "MB", 5.0),
            )
        )


def _quantiles(seconds: list[float]) -> tuple[float, float]:
    cuts = statistics.quantiles(seconds, n=100)
    return cuts[49] * 1e3, cuts[98] * 1e3


async def run(bench: Bench, streams: int) -> list[Row]:
    rows = list(await bench.unary())
    rows += await bench.streams(0.0, "as fast as it goes")
    rows += await bench.streams(20.0, "a token each 20 ms")
    rows += await bench.rpc()
    rows += await bench.first_token()
    rows += await bench.memory(streams)
    rows += await bench.neighbours()
    return rows


def show(rows: list[Row]) -> None:
    width = max(len(row.what) for row in rows)
    for row in rows:
        target = f"<= {row.limit:g}" if row.limit else ""
        print(f"{row.what:<{width}}  {row.value:>10.2f} {row.unit:<4} {target:>8}  {row.verdict}")


def main() -> int:
    """Run the benchmark; 0 if every target is met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--streams", type=int, default=20_000)
    parser.add_argument("--gateway", default=f"{Path(sys.executable).parent}/penstock gateway")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        stub = stack.enter_context(stub_engine())
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-bench-")))
        home = bench_home.write(root, [stub.url])
        serving = stack.enter_context(gateway(shlex.split(arguments.gateway), home))
        address = (root / "run/gateway.grpc.addr").read_text(encoding="ascii")
        rows = uvloop.run(
            run(Bench(stub, serving, home.key, home.neighbours_key, arguments.seconds, address), arguments.streams)
        )
        if any(row.what.endswith("failures") and row.value for row in rows):
            print((root / "gateway.log").read_text(encoding="utf-8", errors="replace")[-2_000:], file=sys.stderr)
    show(rows)
    return 1 if any(row.verdict == "MISSED" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
