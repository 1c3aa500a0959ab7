"""What a flood does to its neighbour, on real vLLM: alone, through Penstock, and against plain vLLM, in one run.

A document reader asks now and then with long prompts; a chat tenant floods with ten times its requests. Printed are
the reader's p50 and p99 time to first token in each phase, and the ratio to its own alone. Speaks HTTP only.

    python loadtests/fairness.py --url http://127.0.0.1:8080 --reader KEY --flood KEY [--plain http://127.0.0.1:8000]
"""

import argparse
import asyncio
import json
import random
import time
from dataclasses import dataclass, field

import httpx
from rich.console import Console
from rich.table import Table

WORDS = "river stone lantern harbour quiet engine copper meadow signal winter paper orchard".split()
LIMITS = httpx.Limits(max_connections=400, max_keepalive_connections=400)


@dataclass(frozen=True)
class Caller:
    """One tenant's habit: where, as whom, how often, prompt words, answer tokens."""

    url: str
    key: str
    model: str
    per_s: float
    words: tuple[int, int]
    tokens: int


@dataclass
class Seen:
    """What came of it: seconds to first token, and requests that were refused or failed, by status."""

    ttft_s: list[float] = field(default_factory=list)
    refused: dict[int, int] = field(default_factory=dict)

    def quantile(self, q: float) -> float:
        """Return a quantile of the times to first token."""
        ordered = sorted(self.ttft_s)
        return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else float("nan")


async def ask(client: httpx.AsyncClient, caller: Caller, chance: random.Random, seen: Seen) -> None:
    """Send one streamed request and time its first token."""
    words = " ".join(chance.choices(WORDS, k=chance.randint(*caller.words)))
    body = {
        "model": caller.model,
        "messages": [{"role": "user", "content": f"{chance.random()} {words}"}],
        "max_tokens": caller.tokens,
        "stream": True,
        "ignore_eos": True,
    }
    began = time.perf_counter()
    headers = {"authorization": f"Bearer {caller.key}"}
    async with client.stream("POST", f"{caller.url}/v1/chat/completions", json=body, headers=headers) as answer:
        if answer.status_code != httpx.codes.OK:
            seen.refused[answer.status_code] = seen.refused.get(answer.status_code, 0) + 1
            return
        is_first = True
        async for line in answer.aiter_lines():
            if is_first and _has_text(line):
                is_first = False
                seen.ttft_s.append(time.perf_counter() - began)


def _has_text(line: str) -> bool:
    if not line.startswith("data: {"):
        return False
    choices = json.loads(line[6:]).get("choices") or [{}]
    return bool(choices[0].get("delta", {}).get("content"))


async def play(callers: list[Caller], seconds: float, seed: int) -> list[Seen]:
    """Run the callers side by side, open loop with Poisson arrivals, and wait for what has begun."""
    results = [Seen() for _ in callers]
    async with httpx.AsyncClient(timeout=120, limits=LIMITS) as client, asyncio.TaskGroup() as tasks:

        async def habit(caller: Caller, seen: Seen, chance: random.Random) -> None:
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                tasks.create_task(ask(client, caller, chance, seen))
                await asyncio.sleep(chance.expovariate(caller.per_s))

        for number, (caller, seen) in enumerate(zip(callers, results, strict=True)):
            tasks.create_task(habit(caller, seen, random.Random(seed + number)))
    return results


def phases(options: argparse.Namespace) -> dict[str, list[Caller]]:
    """Return the phases by name: who calls what."""
    found: dict[str, list[Caller]] = {}
    targets = {"Penstock": (options.url, options.reader, options.flood, options.model)}
    if options.plain:
        targets["plain vLLM"] = (options.plain, "none", "none", options.plain_model or options.model)
    for name, (url, reader_key, flood_key, model) in targets.items():
        reader = Caller(url, reader_key, model, options.per_s, (200, 450), 20)
        flood = Caller(url, flood_key, model, 10 * options.per_s, (20, 100), 60)
        found[f"{name}, alone"] = [reader]
        found[f"{name}, beside the flood"] = [reader, flood]
    return found


def main() -> None:
    """Run every phase and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--reader", required=True, help="the reader's API key")
    parser.add_argument("--flood", required=True, help="the flooding tenant's API key")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--plain", default="", help="a plain vLLM of the same model, for comparison")
    parser.add_argument("--plain-model", default="")
    parser.add_argument(
        "--per-s", type=float, default=0.7, help="the reader's requests a second; the flood's are ten times"
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    console, alone = Console(), float("nan")
    table = Table("phase", "reader's requests", "TTFT p50 s", "TTFT p99 s", "p99 / alone", "flood's refusals")
    for name, callers in phases(options).items():
        console.print(f"{name}: {options.seconds:.0f} s ...")
        seen = asyncio.run(play(callers, options.seconds, seed=7))
        p50, p99 = seen[0].quantile(0.5), seen[0].quantile(0.99)
        alone = p99 if len(callers) == 1 else alone
        refused = str(seen[1].refused) if len(seen) > 1 else ""
        table.add_row(name, str(len(seen[0].ttft_s)), f"{p50:.3f}", f"{p99:.3f}", f"{p99 / alone:.2f}", refused)
    console.print(table)


if __name__ == "__main__":
    main()
