"""A gateway process under all shipped packs: nothing of a planted match arrives at its client's socket."""

import asyncio
from dataclasses import replace
from pathlib import Path

import httpx
import msgspec
import pytest

from loadtests.fuzz_filters import CHAT, COMPLETIONS, MESSAGES, RESPONSES, fuzzed
from penstock.domain.fleet.table import RoutingTable, Share
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.serving.shadow import Shadow, ShadowCaps
from penstock.domain.tenancy.tenant import Plan
from penstock.filters import shipped
from tests.support.engines.planted import Case, PlantedEngine
from tests.support.gateways.process import book, prepare, started
from tests.support.patience import until

pytestmark = pytest.mark.integration
SECRET = "It is AKIAIOSFODNN7EXAMPLE"
STREAMS = 120
"""``make fuzz-filters`` asks ten thousand."""


async def test_no_character_of_a_match_arrives(tmp_path: Path) -> None:
    """Every stream and whole answer has the verdict of its whole text, and a proper end; no match arrives."""
    count = await fuzzed(tmp_path, range(STREAMS), seed=3)
    assert count.faults == []
    assert (count.leaked, count.streams) == (0, STREAMS)
    assert set(count.apis) == {CHAT, COMPLETIONS, MESSAGES, RESPONSES}
    assert count.filtered > STREAMS / 4


async def test_a_shadow_copy_is_judged_and_never_shown(tmp_path: Path) -> None:
    """What only the candidate says ends its copy under the caller's own pack, and no caller reads any of it."""
    async with PlantedEngine() as incumbent, PlantedEngine() as candidate:
        for engine, said in ((incumbent, "fine"), (candidate, SECRET)):
            engine.cases[1] = Case(number=1, path=CHAT, said=({"content": [said]},))
        home = prepare(tmp_path, incumbent.url, Plan(safety="secrets"))
        (tmp_path / "run/gateway/packs.json").write_bytes(book([shipped.pack("secrets")], ()))
        table = tmp_path / "run/gateway/table.json"
        made = with_shadow(msgspec.json.decode(table.read_bytes(), type=RoutingTable), candidate)
        table.write_bytes(msgspec.json.encode(made))
        running = started(home)
        gateway = await asyncio.to_thread(running.__enter__)
        try:
            body = {"model": "toy", "messages": [{"role": "user", "content": "case 1."}], "max_tokens": 9}
            async with httpx.AsyncClient(base_url=gateway.url, trust_env=False, timeout=20) as client:
                for stream in (False, True):
                    headers = {"authorization": f"Bearer {home.key}"}
                    answer = await client.post(CHAT, json={**body, "stream": stream}, headers=headers)
                    assert "fine" in answer.text
                    assert "AKIA" not in answer.text
            ended = 'penstock_interventions_total{outcome="block",rule="secrets/aws-key",stage="output"} 2.0'
            await asyncio.to_thread(until, "both copies were judged", lambda: ended in gateway.metrics)
        finally:
            await asyncio.to_thread(running.__exit__, None, None, None)


def with_shadow(table: RoutingTable, engine: PlantedEngine) -> RoutingTable:
    """Return the table with a candidate on this engine that gets a copy of each answered request."""
    (version,), (route,) = table.versions, table.routes
    worker = replace(version.workers[0], id=WorkerId("w-other"), url=engine.url)
    other = replace(version, id=VersionId("toy@ba9876543210"), workers=(worker,))
    caps = ShadowCaps(per_s=100.0, scored_per_s=0.0)
    shares = (*route.shares, Share(version=other.id, weight=0))
    route = replace(route, shares=shares, shadow=Shadow(version=other.id, caps=caps))
    return replace(table, versions=(version, other), routes=(route,))
