"""What a connection costs that closes because its caller has left: CPU of a request on a kept one, and on a new one.

Run: ``python -m loadtests.bench_cancel``. The gateway's own HTTP client before a stub engine, request after request:
answered on a kept connection; answered on a new one each time; given up once its answer has begun, which closes the
connection, for HTTP/1.1 knows no other word for a cancel. CPU is each process's own account, rounds go in turn.
"""

import asyncio
import json
import statistics
import time
from dataclasses import dataclass

import uvloop

from loadtests.bench_gateway import Process, behave, stub_engine
from penstock.connectors.http.client import HttpClient, PoolLimits

PATH = "/v1/chat/completions"
HEADERS = (("content-type", "application/json"),)
BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2, "stream": True})
REQUESTS, ROUNDS, STEP_MS = 1000, 3, 1.0
WAYS = {"kept": (PoolLimits(), False), "new": (PoolLimits(max_idle=0), False), "given up": (PoolLimits(), True)}


class Heard:
    """Hears an answer begin and end."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.began, self.ended = loop.create_future(), loop.create_future()

    def on_head(self, status: int, _headers: list[tuple[bytes, bytes]]) -> None:
        self.began.set_result(status)

    def on_body(self, _data: bytes) -> None: ...

    def on_end(self, error: BaseException | None) -> None:
        self.ended.set_result(error)


@dataclass
class Cost:
    """Microseconds of CPU of a request: of the client, of the engine's process."""

    client: float
    engine: float


async def cost(stub: Process, limits: PoolLimits, *, leaves: bool) -> Cost:
    """Return what a request costs that is answered, or given up."""
    client = HttpClient(clock=time.monotonic, limits=limits)
    began, engine_began = time.process_time(), stub.cpu_s()
    for _ in range(REQUESTS):
        heard = Heard()
        exchange = await client.send(stub.url, PATH, HEADERS, BODY.encode(), heard)
        await heard.began
        if leaves:
            exchange.abort()
        else:
            await heard.ended
    used, engine_used = time.process_time() - began, stub.cpu_s() - engine_began
    await client.close()
    return Cost(used / REQUESTS * 1e6, engine_used / REQUESTS * 1e6)


async def run(stub: Process) -> dict[str, Cost]:
    """Return the median of each way; the first round is forgotten."""
    found: dict[str, list[Cost]] = {name: [] for name in WAYS}
    for _ in range(ROUNDS + 1):
        for name, (limits, leaves) in WAYS.items():
            found[name].append(await cost(stub, limits, leaves=leaves))
    return {
        name: Cost(statistics.median(one.client for one in each[1:]), statistics.median(one.engine for one in each[1:]))
        for name, each in found.items()
    }


def main() -> None:
    with stub_engine() as stub:
        behave(stub, step_ms=STEP_MS)
        found = uvloop.run(run(stub))
    print(f"{'us of CPU per request':24}{'client':>10}{'engine':>10}")
    for name, one in found.items():
        print(f"{name:24}{one.client:>10.0f}{one.engine:>10.0f}")
    kept, new = found["kept"], found["new"]
    print(f"{'a new connection costs':24}{new.client - kept.client:>+10.0f}{new.engine - kept.engine:>+10.0f}")


if __name__ == "__main__":
    main()
