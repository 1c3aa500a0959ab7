"""What mutual TLS to the workers costs a gateway: two gateways before one stub engine, one with it, asked in turn.

Run: ``make bench-tls``. CPU is each gateway process's own account, and rounds alternate, so that a busy machine hurts
both alike. The callers' side is plain in both, as behind a load balancer.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from loadtests import bench_home
from loadtests.bench_gateway import CONCURRENCY, STREAM_TOKENS, Process, chat, gateway
from loadtests.load_client import closed_loop
from penstock.tls.identity import Role
from tests.support.tls.certificates import Issuer, variables

UNARY_US, TOKEN_US = 60.0, 1.0
"""What it may cost more: a request, a streamed token."""
WARM_S = 0.5


@dataclass
class Side:
    """A gateway, and its microseconds in each round."""

    process: Process
    key: str
    unary: list[float] = field(default_factory=list)
    token: list[float] = field(default_factory=list)

    async def round(self, seconds: float) -> None:
        asked = chat(self.process.url, self.key, tokens=16, stream=False)
        self.unary.append(await self._cost(asked, seconds, 1))
        asked = chat(self.process.url, self.key, tokens=STREAM_TOKENS, stream=True)
        self.token.append(await self._cost(asked, seconds, STREAM_TOKENS))

    async def _cost(self, asked: bytes, seconds: float, per: int) -> float:
        await closed_loop(self.process.url, asked, callers=CONCURRENCY, seconds=WARM_S)  # connections are made
        before = self.process.cpu_s()
        timed = await closed_loop(self.process.url, asked, callers=CONCURRENCY, seconds=seconds)
        if timed.failed or not timed.done:
            raise SystemExit(f"bench: {timed.failed} requests failed, {timed.done} were answered")
        return (self.process.cpu_s() - before) / (timed.done * per) * 1e6


@contextmanager
def stub(issuer: Issuer) -> Iterator[tuple[str, str]]:
    """Run the stub engine; yield its plain address and the one with TLS."""
    files = issuer.mounted(Role.WORKER)
    own = [str(file) for file in (files.certificate, files.key, files.authorities)]
    command = [sys.executable, "-m", "tests.support.engines.stub_with_tls", *own]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=bench_home.REPOSITORY) as process:
        try:
            assert process.stdout is not None  # noqa: S101  piped above
            told = json.loads(process.stdout.readline())
            yield told["url"], told["tls_url"]
        finally:
            process.terminate()


async def run(sides: dict[str, Side], rounds: int, seconds: float) -> None:
    """Measure in turn; the first round warms up and is forgotten."""
    for number in range(rounds + 1):
        for side in sides.values() if number % 2 else reversed(sides.values()):
            await side.round(seconds)
    for side in sides.values():
        del side.unary[0], side.token[0]


def show(sides: dict[str, Side]) -> bool:
    """Print the comparison; return whether both bounds are kept."""
    kept = True
    for what, most in (("unary", UNARY_US), ("token", TOKEN_US)):
        plain, secure = (getattr(sides[name], what) for name in ("plain", "tls"))
        more = statistics.median(after - before for before, after in zip(plain, secure, strict=True))
        middle = [statistics.median(one) for one in (plain, secure)]
        kept &= more <= most
        rounds = ", ".join(f"{after - before:+.1f}" for before, after in zip(plain, secure, strict=True))
        print(
            f"{what}: {middle[0]:.1f} µs plain, {middle[1]:.1f} µs with TLS, ratio {middle[1] / middle[0]:.3f}, "
            f"{more:+.1f} µs (<= {most:g}) {'ok' if more <= most else 'MISSED'}; rounds {rounds}"
        )
    return kept


def main() -> int:
    """Run the benchmark; 0 if both bounds are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=6)
    arguments = parser.parse_args()
    command = [f"{Path(sys.executable).parent}/penstock", "gateway"]
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-bench-")))
        issuer = Issuer(root / "certificates")
        addresses = stack.enter_context(stub(issuer))
        told: tuple[dict[str, str], ...] = ({}, variables(issuer.mounted(Role.GATEWAY)))
        sides = {}
        for name, url, settings in zip(("plain", "tls"), addresses, told, strict=True):
            home = bench_home.write(root / name, [url])
            sides[name] = Side(stack.enter_context(gateway(command, home, settings)), home.key)
        uvloop.run(run(sides, arguments.rounds, arguments.seconds))
        return 0 if show(sides) else 1


if __name__ == "__main__":
    sys.exit(main())
