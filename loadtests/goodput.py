"""How much of the capacity is still answered in time under overload, on real vLLM: with admission, and in plain vLLM.

Capacity is what callers that wait for each other get out of Penstock. Then requests arrive by themselves at 1, 1.5
and 2.5 times that rate; an answer counts where it is whole within the deadline, and ends while requests still come: so
what is worked off afterwards flatters nobody. Rounds
alternate between the sides. It starts everything it needs.

    python -m loadtests.goodput [--seconds 40] [--no-plain] [--deadline 12]
"""

import argparse
import asyncio
import random
import time
from collections.abc import Mapping

import httpx
from rich.console import Console
from rich.table import Table

from loadtests.asking import Habit, Seen, ask, client, quantile
from loadtests.sides import Side, running

TENANTS = ("one", "two", "three")
WORDS, TOKENS = (10, 60), 40
OFFERED = (1.0, 1.5, 2.5)
CALLERS = 32
SEED = 11
WARM_S = 8.0
"""Answers that end sooner belong to an engine that is still filling, and do not count."""


def habits(deadline_s: float) -> list[Habit]:
    """Return what each tenant does: all the same."""
    return [Habit(tenant=tenant, words=WORDS, tokens=TOKENS, deadline_s=deadline_s) for tenant in TENANTS]


async def capacity(side: Side, seconds: float) -> float:
    """Return the requests a second that callers get who wait for each other."""
    began = time.perf_counter()
    chance, seen, end = random.Random(SEED), Seen(), began + WARM_S + seconds
    patient = habits(60.0)

    async def caller(http: httpx.AsyncClient) -> None:
        while time.perf_counter() < end:
            await ask(http, side, chance.choice(patient), chance, seen)

    async with client() as http, asyncio.TaskGroup() as callers:
        for _ in range(CALLERS):
            callers.create_task(caller(http))
    return ended(seen, began, seconds) / seconds


def ended(seen: Seen, began: float, seconds: float) -> int:
    """Return how many whole answers ended in the time that counts."""
    return sum(WARM_S <= at - began < WARM_S + seconds for at in seen.whole_at)


async def offer(side: Side, per_s: float, seconds: float, deadline_s: float) -> tuple[Seen, float]:
    """Ask with Poisson arrivals for so long; return what came of it, and whole answers in time per second."""
    chance, seen, callers = random.Random(SEED), Seen(), habits(deadline_s)
    began = time.perf_counter()
    end = began + WARM_S + seconds
    async with client() as http, asyncio.TaskGroup() as asking:
        while time.perf_counter() < end:
            asking.create_task(ask(http, side, chance.choice(callers), chance, seen))
            await asyncio.sleep(chance.expovariate(per_s))
    return seen, ended(seen, began, seconds) / seconds


def table(found: Mapping[tuple[str, float], tuple[Seen, float]], per_s: float, deadline_s: float) -> Table:
    """Return goodput as a share of the capacity, per side and offered load."""
    title = f"capacity {per_s:.2f} requests/s; deadline {deadline_s:.0f} s"
    drawn = Table("side", "offered", "in time / s", "of capacity", "answer p99 s", "not answered", title=title)
    for (name, times), (seen, good) in found.items():
        p99 = quantile(seen.whole_s, 0.99)
        drawn.add_row(name, f"{times}x", f"{good:.2f}", f"{good / per_s:.0%}", f"{p99:.1f}", str(seen.refused))
    return drawn


def main() -> None:
    """Run every phase and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=40.0, help="of each phase")
    parser.add_argument("--deadline", type=float, default=12.0, help="seconds within which an answer counts")
    parser.add_argument("--plain", action=argparse.BooleanOptionalAction, default=True, help="plain vLLM too")
    options = parser.parse_args()
    console = Console()
    console.print("starting what is compared ...")
    with running(dict.fromkeys(TENANTS, ()), plain=options.plain) as sides:
        per_s = asyncio.run(capacity(sides[0], options.seconds))
        console.print(f"capacity: {per_s:.2f} requests/s")
        found: dict[tuple[str, float], tuple[Seen, float]] = {}
        for times in OFFERED:
            for side in sides:
                console.print(f"{side.name} at {times} times that, {options.seconds:.0f} s ...")
                found[side.name, times] = asyncio.run(offer(side, times * per_s, options.seconds, options.deadline))
        ordered = dict(sorted(found.items(), key=lambda each: each[0][0]))
        console.print(table(ordered, per_s, options.deadline))


if __name__ == "__main__":
    main()
