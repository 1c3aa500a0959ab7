"""What the relay before gRPC's core costs a gateway: two gateways before one stub engine, one without it, in turn.

Run: ``make bench-relay``. CPU is each gateway process's own account. Rounds are short and alternate, and the ratio is
the median of pairs beside each other in time, so that a busy machine hurts both alike.
``python -m loadtests.bench_relay unrelayed`` is a gateway whose core accepts by itself: no bound on its connections and
unfinished messages.
"""

import argparse
import socket
import statistics
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from loadtests import bench_home, rpc_client
from loadtests.bench_gateway import CONCURRENCY, PROMPT, STREAM_TOKENS, Process, behave, gateway, stub_engine
from penstock import settings
from penstock.apps.gateway import process
from penstock.gateway.oip.grpc import server
from penstock.intake.relay import Client, Relay

MOST = 1.03
UNRELAYED = "unrelayed"
STEP_MS = 20.0
PACED_TOKENS = 20


@dataclass(frozen=True, kw_only=True)
class Load:
    what: str
    callers: int
    tokens: int
    is_stream: bool = False
    step_ms: float = 0.0


LOADS = (
    Load(what="request, one caller", callers=1, tokens=16),
    Load(what=f"request, {CONCURRENCY} callers", callers=CONCURRENCY, tokens=16),
    Load(what="token, one stream, one each 20 ms", callers=1, tokens=PACED_TOKENS, is_stream=True, step_ms=STEP_MS),
    Load(
        what=f"token, {CONCURRENCY} streams, one each 20 ms",
        callers=CONCURRENCY,
        tokens=PACED_TOKENS,
        is_stream=True,
        step_ms=STEP_MS,
    ),
    Load(what=f"token, {CONCURRENCY} streams, at once", callers=CONCURRENCY, tokens=STREAM_TOKENS, is_stream=True),
)


@dataclass
class Side:
    """A gateway, its gRPC address, and its microseconds by load."""

    process: Process
    address: str
    key: str
    found: dict[str, list[float]] = field(default_factory=dict)

    async def ask(self, load: Load, seconds: float) -> None:
        message = rpc_client.request("bench", PROMPT, load.tokens)
        before = self.process.cpu_s()
        answered = await rpc_client.closed_loop(
            self.address, self.key, message, callers=load.callers, seconds=seconds, is_stream=load.is_stream
        )
        if answered.failed or not answered.done:
            raise SystemExit(f"bench: {answered.failed} calls failed, {answered.done} were answered")
        each = answered.done * (load.tokens if load.is_stream else 1)
        self.found.setdefault(load.what, []).append((self.process.cpu_s() - before) / each * 1e6)

    def costs(self, load: Load) -> list[float]:
        """Return the microseconds of each round but the first, which warms up."""
        return self.found[load.what][1:]


async def run(stub: Process, sides: list[Side], rounds: int, seconds: float) -> bool:
    """Measure and print load by load; return whether the relay costs what it may."""
    kept = True
    for load in LOADS:
        behave(stub, step_ms=load.step_ms)
        for number in range(rounds + 1):
            for side in sides if number % 2 else reversed(sides):
                await side.ask(load, seconds)
        bare, relayed = (side.costs(load) for side in sides)
        ratio = statistics.median(more / less for less, more in zip(bare, relayed, strict=True))
        kept &= ratio <= MOST
        without_us, with_us = (statistics.median(one) for one in (bare, relayed))
        verdict = "ok" if ratio <= MOST else "MISSED"
        costs = f"{without_us:>8.1f} µs without, {with_us:>8.1f} µs with the relay"
        print(f"{load.what:<36} {costs}: {ratio:.3f} {verdict}", flush=True)
    return kept


def unrelayed() -> None:
    """Run a gateway without the relay."""
    setattr(server, "Relay", Unrelayed)  # noqa: B010  mypy would have it stay as it is
    process.main(settings.load(), None)


class Unrelayed(Relay):
    """Stands in for the relay: the core listens at the caller's address itself."""

    _port = 0

    @property
    def server_address(self) -> str:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        return f"127.0.0.1:{self._port}"

    async def start(self, host: str, port: int) -> int:
        del host, port
        return self._port

    def client(self, peer: str) -> Client | None:
        if peer not in self._by_name:
            self._by_name[peer] = Client(self)
        return self._by_name[peer]

    def prove(self, client: Client) -> None: ...


def main() -> int:
    """Run the benchmark; 0 if the relay costs what it may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", nargs="?", choices=[UNRELAYED])
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    if arguments.role:
        unrelayed()
        return 0
    commands = (
        [sys.executable, "-m", "loadtests.bench_relay", UNRELAYED],
        [f"{Path(sys.executable).parent}/penstock", "gateway"],
    )
    with ExitStack() as stack:
        stub = stack.enter_context(stub_engine())
        sides = []
        for command in commands:
            root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-bench-")))
            home = bench_home.write(root, [stub.url])
            serving = stack.enter_context(gateway(command, home))
            address = (root / "run/gateway.grpc.addr").read_text(encoding="ascii")
            sides.append(Side(serving, address, home.key))
        return 0 if uvloop.run(run(stub, sides, arguments.rounds, arguments.seconds)) else 1


if __name__ == "__main__":
    sys.exit(main())
