"""What Penstock costs a real engine: throughput at concurrency 16 and time to first token, beside plain vLLM.

Both serve the same model with the same engine settings; rounds alternate, so that a busy machine hits both alike.
It starts both, and speaks HTTP with them.

    python -m loadtests.throughput [--rounds 4] [--callers 16] [--tokens 64]
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
from rich.console import Console
from rich.table import Table

from loadtests.sides import Side, running

TENANT = "caller"
PROMPT = "Write about rivers, engines and lanterns, number {}."


@dataclass
class Measured:
    """One of the two, and what was measured, per round."""

    side: Side
    tokens_per_s: list[float] = field(default_factory=list)
    ttft_s: list[float] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.side.url}/v1/completions"

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.side.keys[TENANT]}"}

    def body(self, number: int, tokens: int, *, stream: bool) -> dict[str, object]:
        """Return a request that runs for exactly so many tokens."""
        text = PROMPT.format(number)
        sampling: dict[str, object] = {"max_tokens": tokens, "temperature": 0, "ignore_eos": True}
        return {"model": self.side.model, "prompt": text, "stream": stream, **sampling}


@contextmanager
def timed(out: list[float]) -> Iterator[None]:
    began = time.perf_counter()
    yield
    out.append(time.perf_counter() - began)


async def throughput(client: httpx.AsyncClient, side: Measured, callers: int, requests: int, tokens: int) -> None:
    """Run ``requests`` by ``callers`` at a time; note output tokens per second."""
    numbers = iter(range(requests))

    async def caller() -> None:
        for number in numbers:
            answer = await client.post(side.url, json=side.body(number, tokens, stream=False), headers=side.headers)
            answer.raise_for_status()

    spans: list[float] = []
    with timed(spans):
        await asyncio.gather(*(caller() for _ in range(callers)))
    side.tokens_per_s.append(requests * tokens / spans[0])


async def first_tokens(client: httpx.AsyncClient, side: Measured, requests: int) -> None:
    """Time the first bytes of streams, one after another."""
    for number in range(requests):
        began = time.perf_counter()
        body = side.body(number, 4, stream=True)
        async with client.stream("POST", side.url, json=body, headers=side.headers) as answer:
            answer.raise_for_status()
            is_first = True
            async for _ in answer.aiter_raw():
                if is_first:
                    side.ttft_s.append(time.perf_counter() - began)
                    is_first = False


async def measure(sides: list[Measured], options: argparse.Namespace) -> None:
    """Alternate the sides for some rounds; the first is a warm-up."""
    async with httpx.AsyncClient(timeout=120) as client:
        for number in range(options.rounds + 1):
            for side in sides if number % 2 else reversed(sides):
                await throughput(client, side, options.callers, 4 * options.callers, options.tokens)
                await first_tokens(client, side, 20)
            if number == 0:
                for side in sides:
                    side.tokens_per_s.clear()
                    side.ttft_s.clear()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--callers", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_args()
    with running({TENANT: ()}, plain=True) as sides:
        ours, plain = measured = [Measured(side) for side in sides]
        asyncio.run(measure(measured, options))
    table = Table("", "tokens/s, median", "per round", "TTFT p50 ms")
    for side in (plain, ours):
        rounds = " ".join(f"{x:.0f}" for x in side.tokens_per_s)
        ttft_ms = statistics.median(side.ttft_s) * 1e3
        table.add_row(side.side.name, f"{statistics.median(side.tokens_per_s):.0f}", rounds, f"{ttft_ms:.1f}")
    ratio = statistics.median(ours.tokens_per_s) / statistics.median(plain.tokens_per_s)
    added_ms = (statistics.median(ours.ttft_s) - statistics.median(plain.ttft_s)) * 1e3
    table.add_row("Penstock / plain", f"{ratio:.3f}", "", f"{added_ms:+.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
