"""What two tenants send is not held against workers: a neighbour is served beside it, by the same engines."""

import asyncio
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest

from penstock.domain.tenancy.tenant import Plan
from penstock.telemetry import names
from tests.support.engines.wire import Mode
from tests.support.failures.table import FaultTable
from tests.support.gateways.zones import CHAT, Site, site

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ATTACKERS = ("alice", "carol")
CONNECTIONS = 16
SPAN_S = 5.0
POISON = "bad_words"
"""Engines of this test stumble over bodies with this field, as vLLM did over schemas that refer to themselves."""
MESSAGES = [{"role": "user", "content": "hello"}]


@pytest.fixture
def house(tmp_path: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a gateway with three tenants before two engines of one model."""
    with site(tmp_path, {"toy": {"a": 2}}, plan=Plan(), start_s=1.0, tenants=ATTACKERS) as made:  # type: ignore[arg-type]
        yield made


async def _ask(http: httpx.AsyncClient, **fields: object) -> int:
    answer = await http.post(CHAT, json={"model": "toy", "messages": MESSAGES, "max_tokens": 4, **fields})
    return answer.status_code


async def _attack(house: Site, secret: str, heard: Counter[int], number: int) -> None:
    headers = {"authorization": f"Bearer {secret}"}
    async with httpx.AsyncClient(base_url=house.gateway.url, headers=headers, timeout=30, trust_env=False) as http:
        while True:
            heard[await _ask(http, **{POISON: ["x"]}, stream=bool(number % 2), seed=number)] += 1


async def _together(house: Site) -> tuple[Counter[int], Counter[int]]:
    """Attack, and ask as a neighbour meanwhile; return what either heard."""
    attackers, neighbour = Counter[int](), Counter[int]()
    secrets = [house.secrets[ATTACKERS[n % len(ATTACKERS)]] for n in range(CONNECTIONS)]
    attack = [asyncio.create_task(_attack(house, secret, attackers, n)) for n, secret in enumerate(secrets)]
    headers = {"authorization": f"Bearer {house.gateway.home.key}"}
    async with httpx.AsyncClient(base_url=house.gateway.url, headers=headers, timeout=30, trust_env=False) as http:
        until = asyncio.get_running_loop().time() + SPAN_S
        while asyncio.get_running_loop().time() < until:
            neighbour[await _ask(http)] += 1
            await asyncio.sleep(0.2)
    for task in attack:
        task.cancel()
    await asyncio.gather(*attack, return_exceptions=True)
    return attackers, neighbour


@pytest.mark.parametrize(
    ("mode", "effect"), [("error", "the engine answers with 500"), ("reset", "the connection breaks, the engine lives")]
)
def test_finding_2_two_tenants_shut_no_model(house: Site, faults: FaultTable, mode: Mode, effect: str) -> None:
    """Sixteen connections send nothing but what engines fail on, for some seconds; the neighbour hears 200 only."""
    for engine in house.engines.values():
        engine.behave(mode=mode, if_field=POISON)
    attackers, neighbour = asyncio.run(_together(house))
    faults.add(
        f"two tenants send on 16 connections what fails ({effect})",
        f"neighbour: {neighbour[200]} of {neighbour.total()} answered; attackers: {dict(attackers)}; "
        f"{house.counted(names.RETRIES):.0f} retries, {house.counted(names.PROBES):.0f} probes",
        SPAN_S,
    )
    assert set(neighbour) == {200}
    assert 200 not in attackers
    assert house.counted(names.BREAKER_CHANGES) == 0
    assert house.counted(names.PROBES, outcome="passed") == house.counted(names.PROBES) > 0
