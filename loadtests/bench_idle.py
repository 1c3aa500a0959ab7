"""The time that the platform adds to a classic model's own, by stage, on an idle machine.

Run: ``make bench-idle``. One platform with the three classic models; each is asked in every way that callers have, one
request after another, and between any two of them the same handler computes the same input in this process: input to
tensors, model, output; and the same through processes that do nothing else (``empty_relay``): the floor on the cores
that there are. Printed are p50s in milliseconds: of the bare call, what the empty relay and the platform add to it,
and the stages as the answer itself tells them. The rest is the client and the sockets.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

from rich.console import Console
from rich.table import Table

from loadtests import classic
from loadtests.classic import MODELS, Ask, Caller
from loadtests.empty_relay import relayed
from loadtests.sides import running
from penstock.worker.engines.torch import memory

TENANT = "idle"
SEASONING, TOLD_MS = 20, 0.01
Stages = dict[str, float]


def stages(timing: str) -> Stages:
    """Return the milliseconds of each stage that a ``Server-Timing`` tells."""
    parts = (one.strip().partition(";dur=") for one in timing.split(",") if one)
    return {name: float(ms) for name, _, ms in parts}


def alternately(ways: Sequence[Callable[[], object]], ask: Ask, times: int) -> tuple[list[list[float]], list[Stages]]:
    """Return the milliseconds of each way and of the answers, one after another, and the answers' stages."""
    took, told = [list[float]() for _ in (*ways, ask)], list[Stages]()
    for _ in range(times + SEASONING):
        for way, found in zip(ways, took, strict=False):
            began = time.perf_counter()
            way()
            found.append((time.perf_counter() - began) * 1e3)
        began = time.perf_counter()
        told.append(stages(ask()))
        took[-1].append((time.perf_counter() - began) * 1e3)
    return [found[SEASONING:] for found in took], told[SEASONING:]


def mids(told: list[Stages]) -> Stages:
    """Return the median of each stage, the longest first."""
    names = {name for one in told for name in one}
    found = {name: median(one.get(name, 0.0) for one in told) for name in names}
    return dict(sorted(found.items(), key=lambda one: -one[1]))


def table(caller: Caller, models: list[str], times: int) -> Table:
    added = ("bare ms", "empty relay", "platform", "platform over relay")
    drawn = Table("model", "input", "asked over", *added, "stages ms", title="p50 at idle, and what is added to it")
    for name in models:
        call = classic.bare(classic.loaded(name))
        with relayed(name) as relay:
            for size, given in classic.givens(name).items():
                raw = given.encode() if isinstance(given, str) else given
                ways = (partial(call, given), partial(relay, raw))
                for way, ask in (("its API", caller.api), ("v2 REST", caller.rest), ("v2 gRPC", caller.rpc)):
                    drawn.add_row(name, size, way, *row(*alternately(ways, ask(name, given), times)))
    return drawn


def row(took: list[list[float]], told: list[Stages]) -> list[str]:
    bare, relay, platform = map(median, took)
    unseen = median(ms - sum(one.values()) for ms, one in zip(took[-1], told, strict=True))
    words = ", ".join(f"{stage} {ms:.2f}" for stage, ms in mids(told).items() if ms >= TOLD_MS)
    figures = [bare, relay - bare, platform - bare, platform - relay]
    return [*(f"{ms:.2f}" for ms in figures), f"{words}; in no stage {unseen:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=200, help="each way of each model is asked")
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS))
    options = parser.parse_args()
    memory.keep()
    with running({TENANT: ()}, plain=False, models=",".join(options.models)) as (side,):
        Console(width=200).print(table(Caller(side, TENANT), options.models, options.times))


if __name__ == "__main__":
    main()
