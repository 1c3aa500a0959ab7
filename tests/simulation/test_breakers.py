"""Breakers in virtual time: what a gray worker, a lost zone and a model that fails everywhere cost callers."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest

from penstock.domain.fleet.table import WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import TenantId, WorkerId
from penstock.gateway.dispatch.breaker import Breakers
from penstock.gateway.dispatch.charges import Origin, Shape
from penstock.gateway.dispatch.dispatcher import MOST_ERRORS
from penstock.gateway.dispatch.records import Change, FailureEvidence, Level, ProbeResult
from tests.support.samples.calls import VERSION
from tests.support.variants import drilled

PER_S = 50.0
TENANTS = (TenantId("acme"), TenantId("shop"), TenantId("forum"))
FAULT_AT_S, WELL_AT_S = 10.0, 40.0
MOST_ATTEMPTS = 4
FOUND = {"": ProbeResult.PASSED, "error": ProbeResult.FAILED, "refused": ProbeResult.CLOSED}
SAYS = {"error": FailureEvidence.ANSWERED, "refused": FailureEvidence.CLOSED}
SHAPES = (Shape("chat"), Shape("chat tools"), Shape("completions"))
Fails = Callable[[WorkerId, float, random.Random], str]
"""What becomes of a request: empty where it is answered, ``error``, or ``refused`` (no connection)."""


@dataclass
class Run:
    retries: int = 0
    failed: int = 0
    early: int = 0
    probes: int = 0
    sent: Counter[WorkerId] = field(default_factory=Counter)
    told: list[Change] = field(default_factory=list)

    def opened(self, level: Level) -> set[str]:
        return {change.name for change in self.told if change.level is level and change.is_open}


def play(zones: str, each: int, fails: Fails, *, span_s: float, seed: int) -> Iterator[tuple[float, Run]]:
    """Send Poisson requests to workers at random, as far as the breakers let; yield second and sums after each."""
    workers = [WorkerId(f"{zone}{n}") for zone in zones for n in range(each)]
    entries = tuple(WorkerEntry(id=w, url="http://x", state=WorkerState.READY, zone=w[0]) for w in workers)
    chance, run, now = random.Random(seed), Run(), 0.0
    breakers = Breakers(chance, on_change=run.told.append)
    breakers.learn([replace(VERSION, workers=entries)], now)
    while (now := now + chance.expovariate(PER_S)) < span_s:
        _ask(workers, breakers, fails, now, run, chance)
        _probe(breakers, fails, now, run, chance)
        yield now, run


def _probe(breakers: Breakers, fails: Fails, now: float, run: Run, chance: random.Random) -> None:
    """Probe the workers that are due: the platform's request meets the same fate as a caller's would."""
    for probe in breakers.due(now):
        run.probes += 1
        breakers.judged(probe, FOUND[fails(probe.worker, now, chance)], now)


def _ask(
    workers: list[WorkerId], breakers: Breakers, fails: Fails, now: float, run: Run, chance: random.Random
) -> None:
    tried: set[WorkerId] = set()
    who, errors = Origin(chance.choice(TENANTS), chance.choice(SHAPES)), 0
    for attempt in range(MOST_ATTEMPTS):
        left = [w for w in workers if w not in tried]
        if breakers.shut_for_s(VERSION.id, now) or not left:
            run.early += not attempt
            break
        worker = chance.choice(sorted(set(left) - breakers.ejected(left, now)))
        run.sent[worker] += 1
        run.retries += bool(attempt)
        fault = fails(worker, now, chance)
        if not fault:
            breakers.succeeded(worker, now)
            breakers.charges.clear(who)
            return
        breakers.failed(worker, SAYS[fault], who, now)
        tried.add(worker)
        errors += fault == "error"
        if errors == MOST_ERRORS:
            break
    run.failed += 1


@pytest.mark.parametrize("seed", [0, *drilled(range(1, 5))])
def test_a_gray_worker_is_left_alone_and_healthy_ones_are_not(
    seed: int, record_property: Callable[[str, object], None]
) -> None:
    """One of six fails 30 %, the others 0.2 %: probes leave it a small part of its share, and eject no healthy one."""

    def fails(worker: WorkerId, now: float, chance: random.Random) -> str:
        return "error" if chance.random() < (0.3 if worker == "a0" else 0.002) else ""

    *_, (_, run) = play("abc", 2, fails, span_s=120.0, seed=seed)
    share = run.sent[WorkerId("a0")] / run.sent.total()
    record_property(
        "gray", {"probes": run.probes, "share": share, "retries": run.retries, "requests": run.sent.total()}
    )
    assert share < 0.25 / 6, "a quarter of its part at the very most"
    assert run.opened(Level.WORKER) == {"a0"}
    assert run.failed == 0


@pytest.mark.parametrize("seed", [0, *drilled(range(1, 5))])
def test_a_lost_zone_costs_a_dozen_retries(seed: int, record_property: Callable[[str, object], None]) -> None:
    """A third of twelve workers is gone for half a minute: at most 12 retries in 1,500 requests, no failed request."""

    def fails(worker: WorkerId, now: float, _: random.Random) -> str:
        return "refused" if worker[0] == "b" and FAULT_AT_S <= now < WELL_AT_S else ""

    back_at_s, retries = 0.0, 0
    for now, run in play("abc", 4, fails, span_s=70.0, seed=seed):
        sent = run.sent
        if now < WELL_AT_S:
            before, retries = sent.copy(), run.retries
        elif not back_at_s and all(sent[w] > before[w] + 2 for w in before if w[0] == "b"):
            back_at_s = now - WELL_AT_S
    record_property("zone", {"probes": run.probes, "retries": retries, "back_s": back_at_s})
    assert run.opened(Level.ZONE) == {"b"}
    assert 0 < retries <= 12
    assert run.failed == 0
    assert 0.0 < back_at_s <= 20.0


@pytest.mark.parametrize("fault", ["error", "refused"])
def test_a_model_that_fails_everywhere_costs_almost_nothing(fault: str) -> None:
    """While every worker fails, less than one request in ten reaches one; half a minute later all are served."""

    def fails(worker: WorkerId, now: float, _: random.Random) -> str:
        return fault if FAULT_AT_S <= now < WELL_AT_S else ""

    sums = [(now, run.sent.total(), run.early, run.failed) for now, run in play("ab", 2, fails, span_s=70.0, seed=3)]
    began, ended = (next(one for one in sums if one[0] >= at) for at in (FAULT_AT_S, WELL_AT_S))
    recovered = next(one for one in sums if one[0] >= WELL_AT_S + 25.0)
    requests = PER_S * (WELL_AT_S - FAULT_AT_S)
    assert ended[1] - began[1] < 0.1 * requests
    assert ended[2] - began[2] > 0.9 * requests
    assert sums[-1][3] == recovered[3], "nobody fails any more"
