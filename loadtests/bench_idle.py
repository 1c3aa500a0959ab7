"""What the platform adds to a model's own time where nobody else asks, and where that goes.

Run: ``make bench-idle``. One platform with the three classic models; each is asked in every way that callers have, one
request after another, and between any two of them the same handler computes the same input in this process: input to
tensors, model, output. Printed are p50s in milliseconds: of the bare call, of the answer, what lies between them, and
the stages as the answer itself tells them. What no stage has is the client and the sockets.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

from rich.console import Console
from rich.table import Table

from loadtests import classic
from loadtests.classic import MODELS, Ask, Caller
from loadtests.sides import running
from penstock.worker.engines.torch import memory
from penstock.worker.engines.torch.handler import Handler

TENANT = "idle"
SEASONING, TOLD_MS = 20, 0.01
Stages = dict[str, float]


def bare(handler: Handler, given: str | bytes) -> Callable[[], None]:
    """Return a bare call: what an engine does for an item, and nothing else."""

    def call() -> None:
        row = handler.preprocess(given).features
        made = classic.computed(handler, [row])
        handler.postprocess({output: one[0] for output, one in made.items()})

    return call


def stages(timing: str) -> Stages:
    """Return the milliseconds of each stage that a ``Server-Timing`` tells."""
    parts = (one.strip().partition(";dur=") for one in timing.split(",") if one)
    return {name: float(ms) for name, _, ms in parts}


def alternately(call: Callable[[], None], ask: Ask, times: int) -> tuple[list[float], list[float], list[Stages]]:
    """Return the milliseconds of bare calls and answers, and the answers' stages, one after another."""
    alone, answered, told = list[float](), list[float](), list[Stages]()
    for number in range(times + SEASONING):
        began = time.perf_counter()
        call()
        between = time.perf_counter()
        timing = ask()
        ended = time.perf_counter()
        if number >= SEASONING:
            alone.append((between - began) * 1e3)
            answered.append((ended - between) * 1e3)
            told.append(stages(timing))
    return alone, answered, told


def mids(told: list[Stages]) -> Stages:
    """Return the median of each stage, the longest first."""
    names = {name for one in told for name in one}
    found = {name: median(one.get(name, 0.0) for one in told) for name in names}
    return dict(sorted(found.items(), key=lambda one: -one[1]))


def table(caller: Caller, models: list[str], times: int) -> Table:
    """Measure, and return what was found."""
    drawn = Table("model", "input", "asked over", "bare ms", "answer ms", "added ms", "stages ms", title="p50 at idle")
    for name in models:
        handler = classic.loaded(name)
        for size, given in classic.givens(name).items():
            for way, ask in (("its API", caller.api), ("v2 REST", caller.rest), ("v2 gRPC", caller.rpc)):
                drawn.add_row(name, size, way, *row(*alternately(bare(handler, given), ask(name, given), times)))
    return drawn


def row(alone: list[float], answered: list[float], told: list[Stages]) -> list[str]:
    """Return what stands in a line."""
    unseen = median(ms - sum(one.values()) for ms, one in zip(answered, told, strict=True))
    words = ", ".join(f"{stage} {ms:.2f}" for stage, ms in mids(told).items() if ms >= TOLD_MS)
    figures = [median(alone), median(answered), median(answered) - median(alone)]
    return [*(f"{ms:.2f}" for ms in figures), f"{words}; in no stage {unseen:.2f}"]


def main() -> None:
    """Start the platform, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=200, help="each way of each model is asked")
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS))
    options = parser.parse_args()
    memory.keep()
    with running(["fair"], {TENANT: ()}, plain=False, models=",".join(options.models)) as (side,):
        Console(width=200).print(table(Caller(side, TENANT), options.models, options.times))


if __name__ == "__main__":
    main()
