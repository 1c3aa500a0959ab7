"""What rollouts cost gateways and judges: resolving, evidence, its bytes, and the judges of fifty rollouts.

Run: ``make bench-rollouts``. Everything runs in this process and is timed by its own CPU clock, best of some; a
gateway's cost is beside its cost without a rollout. Fifty rollouts have three workers and a candidate each, and four
gateways tell of them. Ends with 1 if a figure is above its bound.
"""

import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from penstock.apps import slos
from penstock.connectors.postgres.arms import body_of
from penstock.domain.fleet.table import WEIGHT_TOTAL, Override, Route, RoutingTable, Share, WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import Alias, RequestId, TenantId, VersionId, WorkerId
from penstock.domain.models.model import Tier
from penstock.domain.outcome import Outcome, Stage
from penstock.domain.rollout.arms import ArmSecond
from penstock.domain.rollout.rollout import Rollout, route_of
from penstock.domain.serving.report import Load
from penstock.domain.tokens import Usage
from penstock.gateway.calls.call import Answer, Call
from penstock.gateway.evidence.counting import Arms, Shared
from penstock.gateway.routing.current import CurrentTable
from penstock.gateway.routing.resolve import TableResolver, sticky_key
from penstock.judging.comparisons import Comparisons
from tests.support.clock import ManualClock
from tests.support.gateways.simulated_arms import NEW, OLD, World
from tests.support.samples import calls

ROLLOUTS, GATEWAYS, WARM_S, MEASURED_S = 50, 4, 90, 20
SHARE = 0.25
ROUNDS, TIMES = 7, 2_000
TENANTS, WORKERS = 40, 4
OTHER = replace(calls.VERSION, id=VersionId("toy@ba9876543210"), digest="ba9876543210" + "0" * 52)
BOUNDS = {
    "resolve, more than without, us": 3.0,
    "evidence of a request, us": 5.0,
    "evidence of a token, us": 0.3,
    "evidence told by a gateway, KiB/s": 20.0,
    "a tick's looks at 50 judges, ms": 2.0,
}


WORKER = {
    one.id: WorkerEntry(id=WorkerId(f"w-{one.id}"), url="http://w", state=WorkerState.READY)
    for one in (calls.VERSION, OTHER)
}


def least_us(operation: Callable[[], object], times: int = TIMES) -> float:
    """Return the best of some rounds, in microseconds of CPU for each time."""

    def cost() -> float:
        began = time.process_time()
        for _ in range(times):
            operation()
        return (time.process_time() - began) / times * 1e6

    return min(cost() for _ in range(ROUNDS))


def resolving_us(route: Route) -> float:
    versions = tuple(replace(one, workers=(WORKER[one.id],)) for one in (calls.VERSION, OTHER))
    current = CurrentTable()
    current.swap(RoutingTable(number=1, made_at=0.0, routes=(route,), versions=versions), 0.0)
    resolver, asked, who = TableResolver(current), calls.request(model="toy"), calls.principal()
    return least_us(lambda: resolver.resolve(asked, who))


def routes() -> tuple[Route, Route]:
    """Return an alias that leads to one version, and the same at a rollout's 25 %, with tenants that stay out."""
    alone = Route(alias=Alias("toy"), shares=(Share(version=calls.VERSION.id, weight=WEIGHT_TOTAL),))
    rollout = Rollout(id="r", alias=alone.alias, incumbent=calls.VERSION.id, candidate=OTHER.id, stage=3)
    out = tuple(Override(tenant=TenantId(f"out-{one}"), version=calls.VERSION.id) for one in range(20))
    return alone, replace(route_of(rollout), overrides=out)


def counting_us(tokens: int, *, is_shared: bool = True) -> float:
    """Count ended requests of many tenants and workers, told once a second at two thousand a second."""
    arms = Arms(ManualClock(), "g", "life", sticky=sticky_key, shared=lambda _: SHARED if is_shared else None)
    answer = Answer(outcome=Outcome.OK, usage=Usage(prompt_tokens=100, output_tokens=tokens), itl_s=(0.02,) * tokens)
    ended = [a_call(number) for number in range(TIMES)]

    def second() -> None:
        for call in ended:
            arms.ended(call, answer)
        arms.take()

    return least_us(second, 1) / TIMES


SHARED = Shared(Alias("toy"), 2048)


def a_call(number: int) -> Call:
    """Return an answered call of one of the tenants' users, at one of the workers."""
    call = calls.call(body={"model": "toy", "messages": [], "user": f"u{number}"}, id=RequestId(f"r{number}"))
    call = replace(call, principal=replace(call.principal, tenant=TenantId(f"t{number % TENANTS}")))
    running = Load(running=number % 8)
    call.attempts.worker = WorkerEntry(
        id=WorkerId(f"w{number % WORKERS}"), url="http://w", state=WorkerState.READY, load=running
    )
    call.timings.put(Stage.PREFILL, 0.05 + number % 17 / 100)
    return call


def told(per_s: float) -> Iterator[list[ArmSecond]]:
    """Yield second by second the evidence of four gateways on fifty aliases at this rate each."""
    worlds = [World(seed=g, per_s=per_s / GATEWAYS, share=SHARE).seconds(WARM_S + MEASURED_S) for g in range(GATEWAYS)]
    for seconds in zip(*worlds, strict=True):
        yield [
            replace(
                one, gateway=f"g{g}", arms=tuple(replace(arm, alias=alias) for alias in ALIASES for arm in one.arms)
            )
            for g, one in enumerate(seconds)
        ]


ALIASES = tuple(Alias(f"alias-{number}") for number in range(ROLLOUTS))


def judging_ms(per_s: float) -> tuple[float, float, float]:
    """Return what a second of evidence takes all judges, what a tick's looks at them take, and KiB/s of a gateway."""
    rollouts = [Rollout(id=alias, alias=alias, incumbent=OLD, candidate=NEW, stage=3) for alias in ALIASES]
    judges, judged, looks, sizes = Comparisons(slos.gates), list[float](), list[float](), list[int]()
    judges.roll(rollouts, {OLD: Tier.CHAT})
    for number, seconds in enumerate(told(per_s)):
        began = time.process_time()
        for second in seconds:
            judges.take(second, second.at + 1.0)
        judges.judged()
        between = time.process_time()
        judges.roll(rollouts, {OLD: Tier.CHAT})
        for rollout in (*rollouts, *rollouts):  # to show it, and to take it on
            judges.judgement(rollout)
        ended = time.process_time()
        if number >= WARM_S:
            judged.append((between - began) * 1e3)
            looks.append((ended - between) * 1e3)
            sizes.append(len(body_of(seconds[0])))
    return statistics.median(judged), statistics.median(looks), statistics.mean(sizes) / 1024


def main() -> int:
    """Print the figures beside their bounds; return the exit code."""
    gc.disable()
    alone, rolling = routes()
    without, with_it = resolving_us(alone), resolving_us(rolling)
    plain, one, many = counting_us(5, is_shared=False), counting_us(5), counting_us(505)
    quiet, busy = judging_ms(2.0), judging_ms(20.0)
    found = {
        "resolve, no rollout, us": without,
        "resolve, a rollout at 25 %, us": with_it,
        "resolve, more than without, us": with_it - without,
        "evidence, nothing shared, us": plain,
        "evidence of a request, us": one - plain,
        "evidence of a token, us": (many - one) / 500,
        "told, 50 rollouts at 2/s, KiB/s": quiet[2],
        "evidence told by a gateway, KiB/s": busy[2] / ROLLOUTS,
        "told, 50 rollouts at 20/s, KiB/s": busy[2],
        "a second of 50 at 2/s each, ms": quiet[0],
        "a second of 50 at 20/s each, ms": busy[0],
        "a tick's looks at 50 judges, ms": max(quiet[1], busy[1]),
    }
    for name, figure in found.items():
        print(f"{name:36}{figure:10.3f}" + (f"   bound {BOUNDS[name]:g}" if name in BOUNDS else ""), flush=True)
    return 0 if all(found[name] <= bound for name, bound in BOUNDS.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
