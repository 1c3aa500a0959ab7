"""Evidence on versions that share an alias: real gateways, a real Postgres, and the ledger beside what they tell."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import pytest

from penstock.apps import slos
from penstock.connectors.postgres.arms import PostgresArms
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.tables import PostgresTables
from penstock.control.rollout.evidence import EvidenceReader
from penstock.domain.fleet.table import Route, Share
from penstock.domain.ids import Alias, VersionId
from penstock.domain.models.model import Tier
from penstock.domain.rollout.arms import ArmSecond
from penstock.domain.rollout.judgement import Judgement, Metric, Verdict
from penstock.domain.tenancy.tenant import Plan
from penstock.judging.comparisons import Comparisons
from tests.support.histories.site import Customer, Site, site
from tests.support.patience import patient

TENANTS = tuple(f"t{number}" for number in range(8))
OLD, NEW = VersionId("toy@0123456789ab"), VersionId("toy@ba9876543210")
SLOW_MS = 400.0


@pytest.fixture(scope="module")
def town() -> Iterator[Site]:
    """Yield two gateways before two versions of one alias; the newer one takes ten times as long."""
    # Not pytest's own folder: that is closed to the account of a Postgres that root starts.
    with tempfile.TemporaryDirectory(prefix="penstock-evidence-", ignore_cleanup_errors=True) as folder:
        customers = tuple(Customer(name=name, plan=Plan(), org="group", org_plan=Plan()) for name in TENANTS)
        with site(Path(folder), customers) as running:
            asyncio.run(share(running))
            running.engines[0].behave(delay_ms=SLOW_MS / 10)
            running.engines[1].behave(delay_ms=SLOW_MS)
            running.start()
            running.start()
            yield running


async def share(town: Site) -> None:
    """Let two versions have half of the alias each."""
    async with Database(town.postgres.dsn, max_connections=1) as database:
        tables = PostgresTables(database)
        before = await tables.latest()
        (one,) = before.versions
        old, new = replace(one, workers=one.workers[:1]), replace(one, id=NEW, workers=one.workers[1:])
        route = Route(alias=Alias("toy"), shares=(Share(version=OLD, weight=5000), Share(version=NEW, weight=5000)))
        await tables.publish(replace(before, number=2, versions=(old, new), routes=(route,)))


async def ask(town: Site, http: httpx.AsyncClient, number: int) -> None:
    """Ask as one of many users of one of the tenants, at one of the gateways."""
    tenant, gateway = TENANTS[number % len(TENANTS)], list(town.gateways.values())[number % 2]
    body = {
        "model": "toy",
        "user": f"u{number % 40}",
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": 4,
        "stream": bool(number % 3),
    }
    headers = {"authorization": f"Bearer {town.secrets[tenant]}"}
    answer = await http.post(f"{gateway.url}/v1/chat/completions", json=body, headers=headers)
    assert answer.status_code == 200


@dataclass
class Reader:
    """What a controller has: the judges, and every second that it was told."""

    comparisons: Comparisons = field(default_factory=lambda: Comparisons(slos.gates))
    told: list[ArmSecond] = field(default_factory=list)

    def take(self, second: ArmSecond, at: float) -> bool:
        self.told.append(second)
        return self.comparisons.take(second, at)

    @property
    def judgement(self) -> Judgement:
        ((_, found),) = self.comparisons.judged(Alias("toy"))
        return found

    def tokens(self) -> Counter[tuple[str, str]]:
        found = Counter[tuple[str, str]]()
        for arm in (arm for second in self.told for arm in second.arms):
            found.update({(arm.version, "prompt"): arm.prompt_tokens, (arm.version, "output"): arm.output_tokens})
        return found


async def play(town: Site, evidence: EvidenceReader, reader: Reader) -> int:
    """Ask until the judge has found something, and return how often; what is told last is read, too."""
    sent, loop = 0, asyncio.get_running_loop()
    ends_at = loop.time() + patient(60.0)
    async with httpx.AsyncClient(timeout=60) as http:
        while reader.judgement.verdict is Verdict.WAIT and loop.time() < ends_at:
            await asyncio.gather(*[ask(town, http, sent + each) for each in range(2 * len(TENANTS))])
            sent += 2 * len(TENANTS)
            await asyncio.sleep(0.5)
            await evidence.look(0.0)
    await asyncio.sleep(2.5)
    await evidence.look(0.0)
    return sent


async def test_a_slow_version_is_found_and_no_token_is_missed(town: Site) -> None:
    """What the gateways tell adds up to the ledger's rows, version by version, and the judge finds the slow one."""
    reader = Reader()
    route = Route(alias=Alias("toy"), shares=(Share(version=OLD, weight=5001), Share(version=NEW, weight=4999)))
    reader.comparisons.follow([route], {OLD: Tier.CHAT, NEW: Tier.CHAT})
    async with Database(town.postgres.dsn, max_connections=1) as database:
        evidence = EvidenceReader(PostgresArms(database), reader.take)
        sent = await play(town, evidence, reader)
    assert (reader.judgement.verdict, reader.judgement.findings[0].metric) == (Verdict.ABORT, Metric.TTFT)
    assert evidence.left_out == 0

    rows, billed = await asyncio.to_thread(town.rows), Counter[tuple[str, str]]()
    for row in rows:
        billed.update({(row.version, "prompt"): row.prompt_tokens, (row.version, "output"): row.output_tokens})
    assert len(rows) == sent
    assert reader.tokens() == billed
    assert {version for version, _ in billed} == {OLD, NEW}
