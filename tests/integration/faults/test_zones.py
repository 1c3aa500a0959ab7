"""A zone is lost, then a whole model: what callers see of it, at a real gateway process before engines in two zones."""

import time
from collections.abc import Iterator

import pytest

from penstock.domain.tenancy.tenant import Plan
from penstock.telemetry import names
from tests.support.failures.table import FaultTable
from tests.support.gateways.zones import CHAT, Site, site
from tests.support.patience import until

pytestmark = pytest.mark.integration

EACH = 3
START_S = 17.0
MOST_RETRIES = 8
"""Two of three workers found lost make the zone's circuit open; the rest are probes of some seconds."""


@pytest.fixture(scope="module")
def zones(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a gateway before three engines in each of two zones."""
    with site(tmp_path_factory.mktemp("zones"), {"toy": {"a": EACH, "b": EACH}}, plan=Plan(), start_s=START_S) as made:
        yield made


def test_an_engine_that_stands_still_gets_nothing_new(zones: Site, faults: FaultTable) -> None:
    """A stream stops in the middle: new requests go to others within seconds, long before a judgement."""
    for engine in zones.engines.values():
        engine.behave(mode="freeze_after_token", after_tokens=3)
    body = {"model": "toy", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 50, "stream": True}
    with zones.gateway.http() as http, http.stream("POST", CHAT, json=body) as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("data: "), stream.status_code
        began = time.monotonic()
        (still,) = (engine for engine in zones.engines.values() if engine.stats["running"])
        for engine in zones.engines.values():
            engine.behave(mode="freeze" if engine is still else "ok")
        until("it is suspected", lambda: "worker_suspected" in zones.gateway.log, within_s=10)
        faults.add(
            "an engine stands still under a stream (stub): passed over",
            "new requests go elsewhere",
            time.monotonic() - began,
        )
        assert all(zones.ask("toy").status_code == 200 for _ in range(30))
        until("the platform found it", lambda: zones.counted(names.PROBES, outcome="failed") >= 1, within_s=15)
        faults.add(
            "the same: the platform's own request is not answered either",
            "its circuit is open",
            time.monotonic() - began,
        )
        assert all(zones.ask("toy").status_code == 200 for _ in range(30))
        still.behave(mode="ok")
    until("it is back", lambda: zones.counted(names.BREAKERS_OPEN, level="worker") == 0, within_s=15)


def test_a_lost_zone_costs_callers_nothing(zones: Site, faults: FaultTable) -> None:
    """With every engine of one zone gone all are answered by the other zone, for a handful of retries."""
    for name, engine in zones.engines.items():
        if name.startswith("toy-b"):
            engine.close()
    began, answers = time.monotonic(), 0
    while answers < 60:
        answer = zones.ask("toy")
        assert answer.status_code == 200, answer.text
        answers += 1
    retries = zones.counted(names.RETRIES)
    assert zones.counted(names.BREAKERS_OPEN, level="zone") == 1
    assert 0 < retries <= MOST_RETRIES
    faults.add(
        "one of two zones lost (3 of 6 engines, stubs)",
        f"all of {answers} answered by the other zone; {retries:.0f} retries in all",
        time.monotonic() - began,
    )


def test_a_model_without_any_engine_is_refused_early(zones: Site, faults: FaultTable) -> None:
    """With the other zone gone too the answer is 503 at once, with the time that a start takes; nothing is retried."""
    for name, engine in zones.engines.items():
        if name.startswith("toy-a"):
            engine.close()

    def is_shut() -> bool:
        return zones.ask("toy").status_code == 503 and zones.counted(names.BREAKERS_OPEN, level="version") == 1

    until("all is known to be lost", is_shut)
    retries, began = zones.counted(names.RETRIES), time.monotonic()
    refused = [zones.ask("toy") for _ in range(20)]
    took_s = time.monotonic() - began
    assert {answer.status_code for answer in refused} == {503}
    waits = {int(answer.headers["retry-after"]) for answer in refused}
    assert min(waits) >= START_S
    assert zones.counted(names.RETRIES) - retries <= MOST_RETRIES
    faults.add("every engine of a model gone (stubs)", f"503, Retry-After {min(waits)} s; 20 requests took", took_s)
