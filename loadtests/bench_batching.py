"""What our batcher costs and what it is worth: against Ray Serve's and BentoML's, a fixed window of 10 ms, and
none.

Run: ``make bench-batching``. First the batcher's own CPU for each item, on a device that takes no time. Then open-loop
load, Poisson and in bursts, on an encoder, a classifier of texts and one of images, on a CPU. At each rate the same
arrivals meet each way of batching in turn, so that what else the machine does meets all of them; peers run in
environments and processes of their own. Counted are answers within the promise. Ends with 1 if an item costs more
than its bound. ``--cost`` measures the cost alone; ``--models``, ``--loads`` and ``--peers`` make a run shorter.
"""

import argparse
import asyncio
import gc
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import inf
from subprocess import DEVNULL, PIPE, Popen

from loadtests.batching_load import KINDS, SPAN_S, WINDOW_S, Ask, Kind, Model, Outcome, arrivals, meet
from loadtests.batching_plot import Line, write
from loadtests.environments import REPOSITORY, environment
from penstock.domain.clock import SystemClock
from penstock.domain.ids import TenantId, VersionId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.batching.collector import Batcher
from penstock.worker.batching.items import Item, Key
from penstock.worker.batching.policy import Policy
from penstock.worker.batching.settings import BatchSettings, Caps

MOST_US = 20.0
ITEMS, AT_ONCE, ROUNDS = 20_000, 64, 3
LOADS = (0.3, 0.8, 1.6, 2.4, 3.2, 4.0)
"""Rates, as multiples of what the device does one by one."""
SHAPES = {"Poisson": 1, "bursts": 4}
"""How many come at once, on average."""
SIZES = (1, 2, 4, 8, 16, 32)
"""Batches of the bare device: the most items a second that it does with any of them is nobody's to beat."""
IN_TIME, LOST = 0.99, 0.1
"""Who answers fewer than ``LOST`` in time is not asked at higher rates."""
PLOTS = REPOSITORY / "build"
OURS = "ours"
PEERS = ("ray", "bentoml")
Way = Callable[[Sequence[float]], Outcome]
"""What becomes of these arrivals."""


class FixedWindow(Policy):
    """Waits for a full batch or its window, as servers with two numbers do, also on an idle device."""

    def _idle_at(self, *_: object) -> float:
        return inf


def settings(kind: Kind) -> BatchSettings:
    """Return how a worker batches for this model."""
    return BatchSettings(max_items=kind.most_items, slo_s=kind.slo_s, interactive=Caps(max_wait_s=kind.slo_s))


def item(kind: Kind, due_s: float) -> Item:
    """Return an item, as a worker has them, due in this many seconds; 0 without a deadline."""
    return Item(
        key=Key(version=VersionId("bench@1"), bucket=kind.cost),
        cost=kind.cost,
        deadline_at=SystemClock().monotonic() + due_s if due_s else 0.0,
        standing=Standing.INTERACTIVE,
        tenant=TenantId("bench"),
        payload=None,
    )


# -- what an item costs ----------------------------------------------------------------


async def cost_us(at_once: int) -> float:
    """Return the CPU of this process for an item on a device that takes no time, less that of a bare future."""
    loop = asyncio.get_running_loop()

    async def bare() -> None:
        future: asyncio.Future[None] = loop.create_future()
        loop.call_soon(future.set_result, None)
        await future

    kind = KINDS["encoder"]
    async with Batcher(lambda items: items, settings(kind), SystemClock()) as made:
        one = item(kind, 3600.0)
        return await _cpu_us(lambda: made.submit(one), at_once) - await _cpu_us(bare, at_once)


async def _cpu_us(call: Callable[[], Awaitable[object]], at_once: int) -> float:
    async def client() -> None:
        for _ in range(ITEMS // at_once):
            await call()

    began = time.process_time()
    await asyncio.gather(*(client() for _ in range(at_once)))
    return (time.process_time() - began) / ITEMS * 1e6


def cost() -> float:
    """Print what an item costs, and return it for many at once."""
    gc.disable()
    print(f"{'us of CPU per item, by how many are waiting':46}" + "".join(f"{n:>8}" for n in (1, 8, AT_ONCE)))
    found = [min(asyncio.run(cost_us(n)) for _ in range(ROUNDS)) for n in (1, 8, AT_ONCE)]
    print(f"{'the batcher, its threads included':46}" + "".join(f"{us:>8.1f}" for us in found))
    gc.enable()
    return found[-1]


# -- what it is worth ------------------------------------------------------------------


def own(model: Model, settings: BatchSettings, *, fixed: bool = False, tells: bool = False) -> Way:
    """Return a way of our own collector; ``tells``: its items have deadlines."""

    async def met(times: Sequence[float]) -> Outcome:
        async with Batcher(model, settings, SystemClock()) as made:
            if fixed:
                made.policy = FixedWindow(settings, made.computes)
            ask: Ask = lambda due_s: made.submit(item(model.kind, due_s if tells else 0.0))  # noqa: E731
            return await meet(ask, model, times)

    return lambda times: asyncio.run(met(times))


@contextmanager
def peer(name: str, model: str) -> Iterator[Way]:
    """Start another project's batching in its own environment."""
    command = [environment("peers", name) / "bin/python", "-m", "loadtests.batching_peer", name, model]
    env = {"PATH": os.defpath, "HOME": str(PLOTS), "PYTHONPATH": str(REPOSITORY), "BENTOML_DO_NOT_TRACK": "1"}
    env["RAY_USAGE_STATS_ENABLED"] = "0"
    with Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, text=True, env=env, cwd=REPOSITORY) as child:
        sent, told = child.stdin, child.stdout
        if sent is None or told is None or not told.readline():
            raise SystemExit(f"bench-batching: {name} did not start; try: {' '.join(map(str, command))}")

        def met(times: Sequence[float]) -> Outcome:
            print(json.dumps(times), file=sent, flush=True)
            return Outcome(*json.loads(told.readline()))

        yield met
        sent.close()


def goodput(name: str, peers: Sequence[str], loads: Sequence[float]) -> None:
    """Print a model's tables and ratios, and draw them."""
    kind, plot = KINDS[name], PLOTS / f"batching-{name}.svg"
    model, window = Model(kind), BatchSettings(max_items=kind.most_items, interactive=Caps(max_wait_s=WINDOW_S))
    with ExitStack() as stack:
        ways = {
            OURS: own(model, settings(kind), tells=True),
            **{one: stack.enter_context(peer(one, name)) for one in peers},
            "fixed 10 ms": own(model, window, fixed=True),
            "none": own(model, BatchSettings(max_items=1)),
        }
        alone_s = _seconds(model, 1)
        most = max(size / _seconds(model, size) for size in SIZES if size <= kind.most_items)
        said = f"bare call {alone_s * 1e3:.1f} ms, the device alone {most:.0f}/s"
        said += f"; answers within {kind.slo_s * 1e3:.0f} ms a second"
        print(f"\n{name}: {said}, p50 in ms, mean batch")
        lines = {shape: table(shape, [load / alone_s for load in loads], ways) for shape in SHAPES}
    write(plot, lines)
    print(f"drawn in {plot.relative_to(REPOSITORY)}")


def _seconds(model: Model, size: int) -> float:
    """Return the least seconds of a batch of this size, with nothing around it."""
    found = inf
    for _ in range(20):
        began = time.perf_counter()
        model([None] * size)
        found = min(found, time.perf_counter() - began)
    return found


def table(shape: str, rates: Sequence[float], ways: dict[str, Way]) -> dict[str, Line]:
    """Print what becomes of one shape of load at each rate, and return it."""
    found: dict[str, Line] = {name: [] for name in ways}
    print(f"{shape:>8}" + "".join(f"{name:>20}" for name in ways))
    for seed, per_s in enumerate(rates):
        times = arrivals(per_s, SHAPES[shape], seed)
        cells = ""
        for name, way in ways.items():
            if found[name] and found[name][-1][2] < LOST:
                cells += f"{'-':>20}"
                continue
            one = way(times)
            found[name].append((len(times) / SPAN_S, one.good_per_s, one.good_ratio))
            cells += f"{one.good_per_s:>8.0f} {one.p50_s * 1e3:>5.0f} {one.batch:>5.1f}"
        print(f"{len(times) / SPAN_S:>8.0f}{cells}", flush=True)
    best, steady = max(good for _, good, _ in found[OURS]), sustained(found[OURS])
    for name, line in found.items():
        most, held = max(good for _, good, _ in line), sustained(line)
        print(
            f"  {name:12} most {most:4.0f}/s ({beside(best, most)}),"
            f" with 99 % in time {held:4.0f}/s ({beside(steady, held)})"
        )
    return found


def beside(ours: float, theirs: float) -> str:
    """Return ours over theirs in words: they may have none."""
    return f"ours x{ours / theirs:.2f}" if theirs else "ours has some" if ours else "as ours"


def sustained(line: Line) -> float:
    """Return the most answers in time a second, of the rates at which 99 of 100 were."""
    return max((good for _, good, ratio in line if ratio >= IN_TIME), default=0.0)


def main() -> int:
    """Print what it costs and what it is worth; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cost", action="store_true", help="what an item costs, and nothing else")
    parser.add_argument("--models", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--loads", nargs="*", type=float, default=LOADS, help="rates, of what is done one by one")
    options = parser.parse_args()
    each_us = cost()
    for name in () if options.cost else options.models:
        goodput(name, options.peers, options.loads)
    return 0 if each_us <= MOST_US else 1


if __name__ == "__main__":
    sys.exit(main())
