"""What a tenant's connections do to its neighbour's first token on a chat model: beside 8, 50, 100 and 200 of them.

Run: ``make bench-connections``. One platform with real vLLM. A victim asks for streams at random moments; then
the same while another tenant asks over so many connections without a pause, refused or not, from a process of its own.
All that once more beside a process that keeps a core busy (``--machine``: six minutes each). Phases alternate, and all
phases alone of a machine are one sample. Asked is at most 1.25 at p99 for documents, prompts of a step or longer
(ADR 0048). A short prompt (``--victim short``) waits for the rest of a step that is as long as its own, whatever the
number of connections: its rows tell by their likeness what connections cost.

On a machine with few cores the flood's own process takes the victim's, which no queue can mend: the last column tells
the part of one core that it used.
"""

import argparse
import asyncio
import json
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field

import uvloop
from rich.console import Console
from rich.table import Table

from loadtests import asking
from loadtests.asking import Habit, Seen, quantile
from loadtests.load_client import request_bytes
from loadtests.sides import Side, running

VICTIM, FLOOD = "victim", "flood"
CHAT = "/v1/chat/completions"
CONNECTIONS = (8, 50, 100, 200)
MOST = 1.25
BEFORE_S = 2.0
"""Until a flood has filled its queue."""
ALONE_PART = 0.25
"""Length of a phase alone as part of one beside the flood: those of all rows are one sample."""
VICTIMS = {
    "documents": Habit(tenant=VICTIM, words=(200, 450), tokens=1),
    "short": Habit(tenant=VICTIM, words=(4, 16), tokens=1),
}
FLOOD_TOKENS = 16
QUANTILES = (0.5, 0.99)
ENDS = ("answered", "refused", "closed")
"""How the flood's requests end."""


@dataclass(frozen=True, kw_only=True)
class Load:
    victim: Habit
    thinks_s: float
    seconds: float
    rounds: int


@dataclass
class Found:
    """Seconds to the victim's first token, alone (of all rows) and beside the flood; the flood's answers and CPU."""

    alone: list[float]
    beside: list[float] = field(default_factory=list)
    flood: Counter[str] = field(default_factory=Counter)
    cpu_s: float = 0.0

    def ratio(self, q: float) -> float:
        return quantile(self.beside, q) / quantile(self.alone, q)


def asks(side: Side, load: Load, seconds: float, seed: int) -> list[float]:
    """Ask as the victim for one phase; return the seconds to each first token."""

    async def run() -> Seen:
        seen, chance, end = Seen(), random.Random(seed), time.perf_counter() + seconds
        async with asking.client() as http:
            while time.perf_counter() < end:
                await asking.ask(http, side, load.victim, chance, seen)
                await asyncio.sleep(chance.expovariate(1 / load.thinks_s))
        return seen

    return asyncio.run(run()).first_s


def floods(side: Side, connections: int, seconds: float) -> tuple[Counter[str], float]:
    """Ask over all connections without a pause; return what came of it, and the CPU seconds that asking took."""
    body = {"model": side.model, "messages": [{"role": "user", "content": "Name a river."}], "max_tokens": FLOOD_TOKENS}
    request = request_bytes(side.url, CHAT, json.dumps(body).encode(), side.keys[FLOOD])
    before, found = time.process_time(), Counter[str]()

    async def run() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(_asks_on(side.url, request, found) for _ in range(connections)))

    uvloop.run(run())
    return found, time.process_time() - before


async def _asks_on(url: str, request: bytes, found: Counter[str]) -> None:
    """Ask over one connection, and over a new one if it closes."""
    host, _, port = url.removeprefix("http://").partition(":")
    while True:
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            while True:
                writer.write(request)
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length))
                found["answered" if head.startswith(b"http/1.1 200") else "refused"] += 1
        except (asyncio.IncompleteReadError, ConnectionError):
            found["closed"] += 1
        finally:
            writer.close()


def burns() -> None:
    """Keep a core busy."""
    while True:
        pass


@contextmanager
def busy_core() -> Iterator[None]:
    burning = multiprocessing.get_context("spawn").Process(target=burns, daemon=True)
    burning.start()
    try:
        yield
    finally:
        burning.kill()
        burning.join()


MACHINES = {"quiet": nullcontext, "busy": busy_core}


def rounds(side: Side, load: Load, connections: int, found: Found) -> None:
    """Let the victim ask alone and beside so many connections, in turn."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as apart:
        apart.submit(floods, side, 1, 0.1).result()  # its imports
        for number in range(load.rounds):
            found.alone += asks(side, load, ALONE_PART * load.seconds, number)
            flooding = apart.submit(floods, side, connections, BEFORE_S + load.seconds + 1.0)
            time.sleep(BEFORE_S)
            found.beside += asks(side, load, load.seconds, number)
            flood, cpu_s = flooding.result()
            found.flood += flood
            found.cpu_s += cpu_s


def table(rows: dict[tuple[str, int], Found], load: Load) -> Table:
    drawn = Table("machine", "connections", title="A victim's first token beside a flood, over the same alone")
    times = [f"{name} {quantity}" for quantity in ("p50", "p99") for name in ("alone ms", "beside ms", "ratio")]
    for name in ("asked alone", "asked beside", *times, *(f"{end}/s" for end in ENDS), "its CPU"):
        drawn.add_column(name, justify="right")
    flood_s = load.rounds * (load.seconds + BEFORE_S + 1.0)
    for (machine, connections), found in rows.items():
        drawn.add_row(
            machine,
            str(connections),
            str(len(found.alone)),
            str(len(found.beside)),
            *(cell for q in QUANTILES for cell in compared(found, q)),
            *(f"{found.flood[name] / flood_s:.1f}" for name in ENDS),
            f"{found.cpu_s / flood_s:.2f}",
        )
    return drawn


def compared(found: Found, q: float) -> tuple[str, str, str]:
    """Return a quantile alone and beside the flood, and their ratio."""
    alone, beside = (f"{quantile(times, q) * 1e3:.1f}" for times in (found.alone, found.beside))
    return alone, beside, f"{found.ratio(q):.2f}"


def main() -> int:
    """Start the platform, measure, print; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, nargs="+", default=CONNECTIONS)
    parser.add_argument("--victim", choices=VICTIMS, default="documents")
    parser.add_argument(
        "--thinks-ms",
        type=float,
        default=300.0,
        help="how long the victim pauses, on average: it must ask for less than its share",
    )
    parser.add_argument("--seconds", type=float, default=30.0, help="of a phase beside the flood; a round has one")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--machine", choices=MACHINES, nargs="+", default=tuple(MACHINES))
    options = parser.parse_args()
    load = Load(
        victim=VICTIMS[options.victim],
        thinks_s=options.thinks_ms / 1e3,
        seconds=options.seconds,
        rounds=options.rounds,
    )
    rows: dict[tuple[str, int], Found] = {}
    with running({VICTIM: (), FLOOD: ()}, plain=False) as (side,):
        asks(side, load, ALONE_PART * load.seconds, 0)  # the first requests are the slowest
        for machine in options.machine:
            alone = list[float]()
            with MACHINES[machine]():
                for connections in options.connections:
                    found = rows[machine, connections] = Found(alone)
                    rounds(side, load, connections, found)
    Console(width=160).print(table(rows, load))
    return 0 if all(found.ratio(0.99) <= MOST for found in rows.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
