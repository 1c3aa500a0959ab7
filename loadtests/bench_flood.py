"""What a flood does to its neighbour on a classic model: the victim's p99 beside it, over its own alone.

Run: ``make bench-flood``. One platform with one model. A victim asks at random moments, about as often as a tenant
that leaves most of the device to others; then the same while another tenant of the same standing keeps many requests
under way from a process of its own. Phases alternate, so that a busy machine hits both alike. Asked is at most 1.25.

On a machine with few cores the flood's own sockets and the gateway's work for them take the victim's cores too, which
no queue can mend. How much that is a bare call of the same model tells, which the victim's own process makes after each
answer: its ratio is the floor on these cores, and stands beside the platform's.
"""

import argparse
import multiprocessing
import random
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from loadtests import classic
from loadtests.asking import quantile
from loadtests.classic import CLASSIFIER, MODELS, Caller, NotAnswered
from loadtests.sides import Side, running

VICTIM, FLOOD = "victim", "flood"
MOST = 1.25
REFUSED_S = 0.02
BEFORE_S = 2.0
SEASONING = 50
QUANTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True, kw_only=True)
class Load:
    model: str
    callers: int
    thinks_s: float
    seconds: float


@dataclass
class Phase:
    """The victim's milliseconds: of its answers, and of bare calls."""

    answers: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)


@dataclass
class Found:
    """The victim alone and beside the flood; the flood's answers and refusals."""

    alone: Phase = field(default_factory=Phase)
    beside: Phase = field(default_factory=Phase)
    flood: Counter[str] = field(default_factory=Counter)


def asks(side: Side, load: Load, seconds: float, seed: int, found: Phase) -> None:
    """Be a victim that asks, and thinks, and asks."""
    given = next(iter(classic.givens(load.model).values()))
    ask, bare = Caller(side, VICTIM).rest(load.model, given), classic.bare(classic.loaded(load.model))
    chance, end = random.Random(seed), time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        ask()
        answered = time.perf_counter()
        bare(given)
        found.answers.append((answered - began) * 1e3)
        found.bare.append((time.perf_counter() - answered) * 1e3)
        time.sleep(chance.expovariate(1 / load.thinks_s))


def floods(side: Side, load: Load, seconds: float) -> Counter[str]:
    """Ask from many threads without a pause; return what came of it."""
    given = next(iter(classic.givens(load.model).values()))
    found, end = Counter[str](), time.perf_counter() + seconds

    def caller() -> None:
        ask = Caller(side, FLOOD).rest(load.model, given)
        while time.perf_counter() < end:
            try:
                ask()
                found["answered"] += 1
            except NotAnswered:
                found["refused"] += 1
                time.sleep(REFUSED_S)

    threads = [threading.Thread(target=caller) for _ in range(load.callers)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return found


def rounds(side: Side, load: Load, times: int) -> Found:
    """Let the victim ask alone and beside the flood, in turn."""
    found = Found()
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as apart:
        apart.submit(floods, side, load, 1.0).result()  # its imports, and what a first batch of many teaches
        asks(side, load, SEASONING * load.thinks_s, 0, Phase())
        for number in range(times):
            asks(side, load, load.seconds, number, found.alone)
            flooding = apart.submit(floods, side, load, BEFORE_S + load.seconds + 1.0)
            time.sleep(BEFORE_S)
            asks(side, load, load.seconds, number, found.beside)
            found.flood += flooding.result()
    return found


def table(found: Found, load: Load, times: int) -> Table:
    title = f"{load.model}: a victim beside {load.callers} callers without a pause"
    drawn = Table("", "asked", "p50 ms", "p90 ms", "p99 ms", title=title)
    alone, beside = found.alone, found.beside
    for what, before, after in (("", alone.answers, beside.answers), ("bare call, ", alone.bare, beside.bare)):
        for name, took in (("alone", before), ("beside the flood", after)):
            drawn.add_row(what + name, str(len(took)), *(f"{quantile(took, q):.1f}" for q in QUANTILES))
        drawn.add_row(what + "ratio", "", *(f"{ratio(before, after, q):.2f}" for q in QUANTILES))
    per_s = found.flood["answered"] / (times * (load.seconds + BEFORE_S + 1.0))
    drawn.caption = f"the flood: {per_s:.0f} answers a second, {found.flood['refused']} refused"
    return drawn


def ratio(alone: list[float], beside: list[float], q: float) -> float:
    """Return a quantile beside the flood over the same alone."""
    return quantile(beside, q) / quantile(alone, q)


def main() -> int:
    """Start the platform, measure, print; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default=CLASSIFIER)
    parser.add_argument("--callers", type=int, default=32)
    parser.add_argument("--thinks-ms", type=float, default=50.0, help="how long the victim pauses, on average")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each phase; a round has two")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    thinks_s = options.thinks_ms / 1e3
    load = Load(model=options.model, callers=options.callers, thinks_s=thinks_s, seconds=options.seconds)
    with running({VICTIM: (), FLOOD: ()}, plain=False, models=options.model) as (side,):
        found = rounds(side, load, options.rounds)
    Console(width=120).print(table(found, load, options.rounds))
    return 0 if ratio(found.alone.answers, found.beside.answers, 0.99) <= MOST else 1


if __name__ == "__main__":
    raise SystemExit(main())
