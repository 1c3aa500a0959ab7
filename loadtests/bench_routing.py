"""What a fleet's size costs: a gateway's choice, pick and new table, the controller's tick, from 4 to 10,000
workers.

Run: ``make bench-routing``. Everything runs in this process and is timed by its own CPU clock, best of some, so a busy
machine hardly changes the ratios. Ends with 1 if a pick among ten thousand workers costs twice one among 64, if the
loop
stands still for a third of a new table's whole cost, or if an adapter adds more than three microseconds to a pick.
"""

import asyncio
import gc
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec

from loadtests.fleets import catalogue, chooser, heartbeats, router, table
from penstock.connectors.postgres import table_slices
from penstock.control.fleet.plan import FleetPolicy, plan
from penstock.control.publish.build import build
from penstock.domain.fleet.table import EMPTY, RoutingTable, VersionEntry, validate
from penstock.domain.fleet.versions import FleetView
from penstock.domain.ids import KeyId, RequestId, TenantId
from penstock.domain.serving.request import Api, InferenceRequest, Prepared
from penstock.domain.tenancy.cost import Cost
from penstock.domain.tenancy.tenant import Plan, Principal, Role
from penstock.gateway.calls.call import Call, Timings
from penstock.gateway.dispatch.breaker import Breakers
from penstock.gateway.routing.current import CurrentTable
from penstock.gateway.routing.selection import SampleSettings

SIZES = (4, 16, 64, 1_000, 10_000)
ROUNDS = 5
PICKS = 2_000
SCANS = 20
SHORT = Prepared(prompt_tokens=100)
LONG = Prepared(prompt_tokens=500, blocks=tuple(range(31)))
EVERYBODY = SampleSettings(choices=10**6)
VERSIONS = 20
ADAPTERS = 50
MOST_ADAPTER_US = 3.0
MOST_TIMES = 2.0
MOST_STALL = 1 / 3


def least(cost: Callable[[], float]) -> float:
    return min(cost() for _ in range(ROUNDS))


def cpu_ms(operation: Callable[[], object]) -> float:
    began = time.process_time()
    operation()
    return (time.process_time() - began) * 1e3


def pick_us(size: int, prepared: Prepared, sample: SampleSettings) -> float:
    chosen_by, (version, *_) = router(size, sample)
    times = PICKS if sample is not EVERYBODY else max(SCANS, PICKS // size)

    def picks() -> None:
        for _ in range(times):
            chosen_by.pick(version, prepared, lambda _: None, frozenset())

    return least(lambda: cpu_ms(picks)) / times * 1e3


def adapter_us(size: int) -> float:
    """Return what a request for an adapter costs a pick beyond what one for its base does."""
    chosen_by, (version, *adapters) = router(size, SampleSettings(), min(ADAPTERS, 2 * size))

    def picks(of: Sequence[VersionEntry]) -> None:
        for n in range(PICKS):
            chosen_by.pick(of[n % len(of)], SHORT, lambda _: None, frozenset())

    picks(adapters)  # their orders are made once
    rounds = [(cpu_ms(partial(picks, adapters)), cpu_ms(partial(picks, [version]))) for _ in range(3 * ROUNDS)]
    with_them, without = (min(cost) for cost in zip(*rounds, strict=True))
    return (with_them - without) / PICKS * 1e3


def choose_us(size: int, model: str) -> float:
    """A gateway resolves a name and prepares its prompt, without what the prompt costs."""
    choosing = chooser(size)

    async def choices() -> float:
        calls = [_call(model) for _ in range(PICKS)]
        began = time.process_time()
        for call in calls:
            await choosing.choose(call)
        return (time.process_time() - began) * 1e6 / PICKS

    return least(lambda: asyncio.run(choices()))


def _call(model: str) -> Call:
    who = Principal(tenant=TenantId("t"), key=KeyId("k"), role=Role.INFER, plan=Plan(), models=(), cache_salt="salt")
    body: dict[str, object] = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    asked = InferenceRequest(
        id=RequestId("r"), api=Api.CHAT, model=model, body=body, stream=False, include_usage=False, cost=Cost(),
        arrived_at=0.0,
    )  # fmt: skip
    return Call(request=asked, principal=who, timings=Timings(time.monotonic, 0.0))


def tick_ms(size: int) -> tuple[float, float]:
    """Return the cost of a controller's tick that publishes membership, and of one that publishes loads too."""
    known, seen, later = catalogue(size, VERSIONS), heartbeats(size, VERSIONS, 0), heartbeats(size, VERSIONS, 7)
    latest = build(known, seen, EMPTY, 0.0, silence_s=5.0)

    def tick(now: float) -> None:
        plan(known, later, FleetView(), now, FleetPolicy())
        validate(build(known, later, latest, now, silence_s=5.0))

    return least(lambda: cpu_ms(partial(tick, 0.5))), least(lambda: cpu_ms(partial(tick, 1.5)))


def whole_ms(body: bytes) -> float:
    """Return what a new table costs a gateway in one go."""

    def take() -> None:
        follower().swap(msgspec.json.decode(body, type=RoutingTable), 0.0)

    return least(lambda: cpu_ms(take))


def stall_ms(body: bytes) -> float:
    """Return the longest that the loop stands still while a gateway takes a new table in slices."""

    async def take() -> None:
        new = await table_slices.decode(body)
        for _ in follower().steps(new, 0.0):
            await asyncio.sleep(0)

    return least(lambda: longest_ms(take().__await__()))


def longest_ms(steps: Iterator[object]) -> float:
    """Return the longest stretch between two turns of the loop."""
    longest, done = 0.0, False
    while not done:
        began = time.process_time()
        done = next(steps, steps) is steps
        longest = max(longest, time.process_time() - began)
    return longest * 1e3


def follower() -> CurrentTable:
    """Return an empty table that breakers follow, as a gateway's do."""
    current, breakers = CurrentTable(), Breakers(random.Random(1))
    current.on_change(lambda _, after: breakers.learn(after.table.versions, after.at))
    return current


ROWS = {
    "pick, short prompt, us": lambda size: pick_us(size, SHORT, SampleSettings()),
    "pick, 31 blocks, us": lambda size: pick_us(size, LONG, SampleSettings()),
    "pick by full scan, us": lambda size: pick_us(size, SHORT, EVERYBODY),
    "tick without news, ms": lambda size: tick_ms(size)[0],
    "tick with new loads, ms": lambda size: tick_ms(size)[1],
    "new table in one go, ms": lambda size: whole_ms(msgspec.json.encode(table(size))),
    "new table, longest stall, ms": lambda size: stall_ms(msgspec.json.encode(table(size))),
    "with adapters, longest stall, ms": lambda size: stall_ms(msgspec.json.encode(table(size, adapters=4 * ADAPTERS))),
    "an adapter's part of a pick, us": adapter_us,
    "resolve a plain name, us": lambda size: choose_us(size, "plain"),
    "resolve by two rules, us": lambda size: choose_us(size, "auto"),
}


def main() -> int:
    """Print the table; return the exit code."""
    gc.disable()
    print(f"{'CPU by number of workers':32}" + "".join(f"{size:>10,}" for size in SIZES) + "  10k/64  10k/1k")
    found: dict[str, dict[int, float]] = {}
    for name, cost in ROWS.items():
        row = found[name] = {size: cost(size) for size in SIZES}
        ratios = f"{row[10_000] / row[64]:>8.1f}{row[10_000] / row[1_000]:>8.1f}"
        print(f"{name:32}" + "".join(f"{row[size]:>10.2f}" for size in SIZES) + ratios, flush=True)
    pick, whole, stall = (found[list(ROWS)[row]] for row in (0, 5, 6))
    times, part = pick[10_000] / pick[64], stall[10_000] / whole[10_000]
    print(f"a pick among 10,000 costs {times:.1f} of one among 64 (bound {MOST_TIMES:.0f})")
    print(f"the longest stall is {part:.2f} of a new table in one go (bound {MOST_STALL:.2f})")
    adapter = max(found[list(ROWS)[8]].values())
    print(f"an adapter adds {adapter:.2f} us to a pick at most (bound {MOST_ADAPTER_US:.0f})")
    return 0 if times < MOST_TIMES and part < MOST_STALL and adapter <= MOST_ADAPTER_US else 1


if __name__ == "__main__":
    sys.exit(main())
