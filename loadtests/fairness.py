"""What a flood does to its neighbour, on real vLLM: behind Penstock and before plain vLLM.

A reader sends documents one after another; then the same while another tenant of the same class and weight floods
with ten times the reader's requests, from a process of its own: what sends it must not hold up the reader's clock.
Printed are the reader's times to first token and their ratio to its own alone. Rounds alternate between the sides, so
that a busy machine hits all alike. It starts everything it needs.

A p99 of a few dozen documents is the worst of them: a phase of 150 s has about a hundred.
The reader's and the flood's habits can be chosen, and by how many tenants the flood comes (Zipf's law): beside many
the reader pauses longer, so that it stays within its share.

    python -m loadtests.fairness [--seconds 150] [--rounds 1] [--no-plain]
                                 [--reader documents|short|long] [--flood chat|mixed|long] [--tenants 1]
"""

import argparse
import asyncio
import multiprocessing
import random
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import httpx
from rich.console import Console
from rich.table import Table

from loadtests.asking import Habit, Seen, ask, client, quantile
from loadtests.sides import Side, running

READERS = {
    "documents": Habit(tenant="reader", words=(200, 450), tokens=16),
    "short": Habit(tenant="reader", words=(1, 20), tokens=16),
    "long": Habit(tenant="reader", words=(1000, 1300), tokens=16),
}
FLOODS = {
    "chat": Habit(tenant="flood", words=(20, 100), tokens=60, deadline_s=20.0),
    "mixed": Habit(tenant="flood", words=(20, 100), tokens=60, deadline_s=20.0, streams_of_ten=5),
    "long": Habit(tenant="flood", words=(1000, 1300), tokens=60, callers=12),
}
FLOOD_TIMES = 10
THINKS_S = 0.3
"""How long the reader looks at an answer before it sends the next document, on average."""
SEED = 7


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Who meets whom, and by how many tenants the flood comes."""

    reader: Habit
    flood: Habit
    tenants: int

    @property
    def thinks_s(self) -> float:
        """How long the reader looks at an answer."""
        return THINKS_S * self.tenants

    def names(self) -> list[str]:
        """Return the tenants of the flood."""
        return [f"flood-{number}" for number in range(1, self.tenants + 1)]


async def read(http: httpx.AsyncClient, side: Side, seconds: float, scene: Scene, seen: Seen) -> None:
    """Send one request after another."""
    chance, end = random.Random(SEED), time.perf_counter() + seconds
    while time.perf_counter() < end:
        await ask(http, side, scene.reader, chance, seen)
        await asyncio.sleep(chance.expovariate(1 / scene.thinks_s))


async def flood(side: Side, per_s: float, seconds: float, scene: Scene) -> Seen:
    """Ask with Poisson arrivals, whatever comes back, or as callers that never pause; who still waits then hangs up."""
    chance, seen, end = random.Random(SEED + 1), Seen(), time.perf_counter() + seconds
    names, parts = scene.names(), [1 / rank for rank in range(1, scene.tenants + 1)]
    async with client() as http:
        asking: set[asyncio.Task[None]] = set()

        def somebody() -> Habit:
            return replace(scene.flood, tenant=chance.choices(names, parts)[0])

        async def one_after_another() -> None:
            while True:
                await ask(http, side, somebody(), chance, seen)

        asking |= {asyncio.create_task(one_after_another()) for _ in range(scene.flood.callers)}
        while time.perf_counter() < end:
            if not scene.flood.callers:
                asking.add(asyncio.create_task(ask(http, side, somebody(), chance, seen)))
            await asyncio.sleep(chance.expovariate(per_s))
        for one in asking:
            one.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
    return seen


def flooding(side: Side, per_s: float, seconds: float, scene: Scene) -> Seen:
    """Do so in this process."""
    return asyncio.run(flood(side, per_s, seconds, scene))


async def alone(side: Side, seconds: float, scene: Scene) -> Seen:
    """Return what the reader sees while nobody else asks."""
    seen = Seen()
    async with client() as http:
        await read(http, side, seconds, scene, seen)
    return seen


async def beside(side: Side, seconds: float, per_s: float, scene: Scene) -> tuple[Seen, Seen]:
    """Return what reader and flood see together; the flood begins first."""
    reader, before_s = Seen(), min(8.0, seconds / 4)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as apart:
        flooder = apart.submit(flooding, side, per_s, before_s + seconds, scene)
        await asyncio.sleep(before_s)
        async with client() as http:
            await read(http, side, seconds, scene, reader)
        seen = await asyncio.wrap_future(flooder)
    await asyncio.sleep(2.0)  # what was hung up on leaves the engines
    return reader, seen


def rounds(sides: list[Side], options: argparse.Namespace, console: Console) -> dict[str, tuple[Seen, Seen, Seen]]:
    """Return, by side, what the reader saw alone and beside the flood, and what the flood saw."""
    scene = Scene(reader=READERS[options.reader], flood=FLOODS[options.flood], tenants=options.tenants)
    found = {side.name: (Seen(), Seen(), Seen()) for side in sides}
    for number in range(options.rounds):
        for side in sides:
            console.print(f"round {number + 1} of {options.rounds}: {side.name}, {2 * options.seconds:.0f} s ...")
            by_itself = asyncio.run(alone(side, options.seconds, scene))
            per_s = FLOOD_TIMES * scene.tenants * len(by_itself.first_s) / options.seconds
            both = asyncio.run(beside(side, options.seconds, per_s, scene))
            for sums, seen in zip(found[side.name], (by_itself, *both), strict=True):
                sums.add(seen)
    return found


def table(found: dict[str, tuple[Seen, Seen, Seen]]) -> Table:
    """Return the reader's p50 and p99 per side."""
    heads = ("side", "documents alone / beside", "TTFT p50 s", "TTFT p99 s", "p99 / alone", "flood: whole, refused")
    drawn = Table(*heads, title="a reader beside a flood")
    for name, (by_itself, reader, flooder) in found.items():
        print("READER", [round(x, 2) for x in reader.first_s], reader.refused)
        p50, p99 = ([quantile(seen.first_s, q) for seen in (by_itself, reader)] for q in (0.5, 0.99))
        drawn.add_row(
            name,
            f"{len(by_itself.first_s)} / {len(reader.first_s)}",
            f"{p50[0]:.3f} -> {p50[1]:.3f}",
            f"{p99[0]:.3f} -> {p99[1]:.3f}",
            f"{p99[1] / p99[0]:.2f}",
            f"{len(flooder.whole_s)}, {flooder.refused}",
        )
    return drawn


def main() -> None:
    """Run every phase and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=150.0, help="of each phase; a side has two in a round")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--plain", action=argparse.BooleanOptionalAction, default=True, help="plain vLLM too")
    parser.add_argument("--reader", choices=READERS, default="documents")
    parser.add_argument("--flood", choices=FLOODS, default="chat")
    parser.add_argument("--tenants", type=int, default=1, help="by how many tenants the flood comes")
    options = parser.parse_args()
    console, sides = Console(), 1 + options.plain
    minutes = 2 * options.seconds * options.rounds * sides / 60
    console.print(f"starting what is compared; then it takes about {minutes:.0f} minutes ...")
    tenants: dict[str, Sequence[str]] = {"reader": (), **{f"flood-{n}": () for n in range(1, options.tenants + 1)}}
    with running(tenants, plain=options.plain) as sides:
        console.print(table(rounds(sides, options, console)))


if __name__ == "__main__":
    main()
