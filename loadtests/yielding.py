"""What a batch that is always full does to interactive tenants, and what it gets itself, on real vLLM.

Interactive tenants ask in bursts, with calm between them; meanwhile a batch tenant keeps 48 requests open. Columns:
alone, by default, with ``batch_yield=strict``, another checkout's door (``--before``, today's before this rule), plain
vLLM with everything open, and vLLM's own priority queue. "By hand" is the other checkout's door with a bound on the
batch's open requests: the best that holds the promise is what the default is compared with.
Rounds alternate between the columns, so that a busy machine hits all alike; only ratios within a run mean anything.

    python -m loadtests.yielding [--seconds 60] [--rounds 1] [--settle 60] [--tenants 1 8] [--before TREE] [--by-hand 4]
"""

import argparse
import asyncio
import json
import multiprocessing
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import httpx
from rich.console import Console
from rich.table import Table

from loadtests.asking import WORDS, client, quantile
from loadtests.sides import Side, plain_engine, platform
from penstock.apps import slos
from penstock.domain.models.model import Tier
from penstock.domain.serving.slo import Indicator

OPEN = 48
"""Open requests of the batch: more than the engine has slots."""
BURST_S, CALM_S = 15.0, 15.0
"""A reader's few questions; then longer than a reader counts as about."""
FILLS_S = 6.0
"""From the batch's first token until it is full."""
THINKS_S = 0.3
"""Mean pause of one interactive tenant; of several each pauses longer."""
SHARE, STRICT = "batch-share", "batch-strict"
SEED = 7


@dataclass(frozen=True, kw_only=True)
class Column:
    """A side, the tenant of the batch there (empty: none), and its open requests."""

    name: str
    side: Side
    batch: str
    open: int = OPEN
    priority: bool = False
    """Whether requests carry vLLM's own priority."""


@dataclass
class Seen:
    first_s: list[float] = field(default_factory=list)
    gaps_s: list[float] = field(default_factory=list)
    refused: int = 0
    batch_tokens: int = 0
    seconds: float = 0.0

    def add(self, other: "Seen") -> None:
        self.first_s += other.first_s
        self.gaps_s += other.gaps_s
        self.refused += other.refused
        self.batch_tokens += other.batch_tokens
        self.seconds += other.seconds


@dataclass(frozen=True, kw_only=True)
class Question:
    tenant: str
    words: tuple[int, int]
    tokens: int
    priority: int


async def ask(
    http: httpx.AsyncClient, column: Column, question: Question, chance: random.Random, times: list[float]
) -> None:
    """Ask once; add the seconds of ``perf_counter`` at which its tokens came. Raises for a refusal."""
    side = column.side
    words = " ".join(chance.choices(WORDS, k=chance.randint(*question.words)))
    body = {
        "model": side.model,
        "messages": [{"role": "user", "content": f"{chance.random()} {words}"}],
        "max_tokens": question.tokens,
        "stream": True,
        "ignore_eos": True,
        **({"priority": question.priority} if column.priority else {}),
    }
    headers = {"authorization": f"Bearer {side.keys[question.tenant]}", "x-penstock-deadline-ms": "600000"}
    async with http.stream("POST", f"{side.url}/v1/chat/completions", json=body, headers=headers) as answer:
        answer.raise_for_status()
        async for line in answer.aiter_lines():
            if _has_text(line):
                times.append(time.perf_counter())  # noqa: PERF401  an extension would not be seen as it grows


def _has_text(line: str) -> bool:
    choices = json.loads(line[6:]).get("choices") if line.startswith("data: {") else None
    return bool(choices and choices[0]["delta"].get("content"))


async def read(column: Column, number: int, tenants: int, until: float, seen: Seen) -> None:
    """Ask one question after another in bursts."""
    chance, began = random.Random(SEED + number), time.perf_counter()
    question = Question(tenant=f"reader-{number}", words=(4, 12), tokens=24, priority=0)
    async with client() as http:
        while (now := time.perf_counter()) < until:
            in_cycle_s = (now - began) % (BURST_S + CALM_S)
            if in_cycle_s >= BURST_S:
                await asyncio.sleep(BURST_S + CALM_S - in_cycle_s + chance.random())
                continue
            times = list[float]()
            try:
                await ask(http, column, question, chance, times)
            except httpx.HTTPError:
                seen.refused += 1
                await asyncio.sleep(1.0)
                continue
            seen.first_s += [one - now for one in times[:1]]
            seen.gaps_s += [after - before for before, after in pairwise(times)]
            await asyncio.sleep(chance.expovariate(1 / (THINKS_S * max(1.0, tenants / 2))))


async def _batch(column: Column, seconds: float, begun: Path) -> int:
    """Keep requests open; say when the first token has come, and return the tokens of the seconds after it is full."""
    question = Question(tenant=column.batch, words=(30, 60), tokens=100, priority=10)
    chance, tokens = random.Random(SEED), list[float]()

    async def caller(http: httpx.AsyncClient) -> None:
        while True:
            try:
                await ask(http, column, question, chance, tokens)
            except httpx.HTTPError:
                await asyncio.sleep(1.0)

    async with client() as http:
        callers = [asyncio.create_task(caller(http)) for _ in range(column.open)]
        while not tokens:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        begun.touch()  # noqa: ASYNC240
        full_at = time.perf_counter() + FILLS_S
        await asyncio.sleep(FILLS_S + seconds)
        for one in callers:
            one.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
    return sum(full_at <= at < full_at + seconds for at in tokens)


def batch(column: Column, seconds: float, begun: Path) -> int:
    return asyncio.run(_batch(column, seconds, begun))


async def cell(column: Column, tenants: int, seconds: float) -> Seen:
    """Return the interactive tenants' times, and the batch's tokens, which comes from a process of its own."""
    seen = Seen(seconds=seconds)

    async def everybody() -> None:
        until = time.perf_counter() + seconds
        await asyncio.gather(*(read(column, number, tenants, until, seen) for number in range(tenants)))

    if not column.batch:
        await everybody()
        return seen
    apart = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    with tempfile.TemporaryDirectory() as folder, apart:
        begun = Path(folder) / "begun"
        filling = apart.submit(batch, column, seconds, begun)
        while not begun.exists() and not filling.done():  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        await asyncio.sleep(FILLS_S)
        await everybody()
        seen.batch_tokens = await asyncio.wrap_future(filling)
    await asyncio.sleep(2.0)
    return seen


def columns(options: argparse.Namespace, stack: ExitStack) -> Iterator[Column]:
    readers = {f"reader-{number}": ("--priority", "interactive") for number in range(max(options.tenants))}
    share = {SHARE: ("--priority", "batch")}
    strict = {STRICT: ("--priority", "batch", "--plan", "batch_yield=strict")}
    ours = stack.enter_context(platform({**readers, **share, **strict}))
    yield Column(name="alone", side=ours, batch="")
    yield Column(name="default", side=ours, batch=SHARE)
    yield Column(name="strict", side=ours, batch=STRICT)
    if options.before:
        before = stack.enter_context(platform({**readers, **share}, name="before", tree=options.before))
        yield Column(name="door before", side=before, batch=SHARE)
        for most in options.by_hand:
            yield Column(name=f"by hand: {most}", side=before, batch=SHARE, open=most)
    if options.plain:
        names = (*readers, SHARE)
        yield Column(name="plain vLLM", side=stack.enter_context(plain_engine(names)), batch=SHARE)
        queue = stack.enter_context(plain_engine(names, name="queue", options=("--scheduling-policy", "priority")))
        yield Column(name="priority queue", side=queue, batch=SHARE, priority=True)


def table(found: dict[tuple[int, str], Seen]) -> Table:
    promised = slos.load()[Tier.CHAT]
    ttft_s, itl_s = promised.within_s(Indicator.TTFT), promised.within_s(Indicator.ITL)
    heads = ("tenants", "column", "asked", "TTFT p50 / p99 ms", "p99 / alone", "ITL p95 ms", "kept", "batch tokens/s")
    drawn = Table(*heads, title="interactive tenants beside a full batch")
    for (tenants, name), seen in found.items():
        p50, p95, p99 = (quantile(seen.first_s, q) for q in (0.5, 0.95, 0.99))
        itl = quantile(seen.gaps_s, 0.95)
        drawn.add_row(
            str(tenants),
            name,
            f"{len(seen.first_s)}" + (f", {seen.refused} refused" if seen.refused else ""),
            f"{1e3 * p50:.0f} / {1e3 * p99:.0f}",
            f"{p99 / quantile(found[tenants, 'alone'].first_s, 0.99):.2f}",
            f"{1e3 * itl:.0f}",
            "yes" if p95 <= ttft_s and itl <= itl_s else "no",
            f"{seen.batch_tokens / seen.seconds:.0f}",
        )
    return drawn


def best_by_hand(found: dict[tuple[int, str], Seen], tenants: int) -> str:
    """Return the default's tokens a second over those of the best bound by hand that keeps the promise."""
    itl_s = slos.load()[Tier.CHAT].within_s(Indicator.ITL)
    by_hand = [
        (seen.batch_tokens / seen.seconds, name)
        for (number, name), seen in found.items()
        if number == tenants and name.startswith("by hand") and quantile(seen.gaps_s, 0.95) <= itl_s
    ]
    if not by_hand:
        return f"{tenants} tenants: no bound by hand keeps the promise"
    (best, name), own = max(by_hand), found[tenants, "default"]
    return f"{tenants} tenants: the default gets {own.batch_tokens / own.seconds / best:.2f} of the best ({name})"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each cell")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--settle", type=float, default=60.0, help="seconds in which the default learns first")
    parser.add_argument("--tenants", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--before", type=Path, help="a checkout with another door")
    parser.add_argument("--by-hand", type=int, nargs="*", default=[4, 8, 16], help="open batch requests at that door")
    parser.add_argument("--plain", action=argparse.BooleanOptionalAction, default=True, help="plain vLLM too")
    options = parser.parse_args(argv)
    console, found = Console(width=140), dict[tuple[int, str], Seen]()
    with ExitStack() as stack:
        all_of = list(columns(options, stack))
        for column in [one for one in all_of if options.settle and one.name == "default"]:
            console.print(f"the default learns for {options.settle:.0f} s ...")
            asyncio.run(cell(column, max(options.tenants), options.settle))
        for number in range(options.rounds):
            for tenants in options.tenants:
                for column in all_of:
                    console.print(f"round {number + 1} of {options.rounds}: {tenants} tenants, {column.name} ...")
                    seen = asyncio.run(cell(column, tenants, options.seconds))
                    found.setdefault((tenants, column.name), Seen()).add(seen)
                console.print(table(found))
        for tenants in options.tenants:
            console.print(best_by_hand(found, tenants))


if __name__ == "__main__":
    main()
