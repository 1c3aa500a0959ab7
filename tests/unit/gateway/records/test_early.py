"""What becomes of a request that was refused before its body was read: it is counted by its tenant, and kept."""

import timeit
from pathlib import Path

import httpx
import pytest

from penstock.apps import slos
from penstock.connectors.records.folder import FolderBounds, RecordFolder
from penstock.domain.errors import OverLimit
from penstock.domain.ids import KeyId, RequestId, TenantId
from penstock.domain.serving.request import Api
from penstock.domain.serving.request_record import RequestRecord
from penstock.domain.tenancy import credentials
from penstock.domain.tenancy.credentials import Claim
from penstock.domain.tenancy.keys import _checksum, mint
from penstock.domain.tenancy.tenant import OPERATORS, Role
from penstock.gateway.records.asking import RecordLookup
from penstock.gateway.records.making import Early, Records, refused_early
from penstock.gateway.records.requests import RequestLedger
from penstock.intake.limits import Limits
from penstock.telemetry.metrics import Metrics
from penstock.telemetry.tenants import TenantLabels
from tests.support.clock import ManualClock
from tests.support.gateways.toy import SECRET, Toy, edge, hello
from tests.support.samples import calls


def test_early_refusals_are_counted_by_tenant(clock: ManualClock) -> None:
    """Who floods at its limit is seen by name, whatever the corridor saw of it; beyond the named it is other."""
    metrics, kept = Metrics(), list[RequestRecord]()
    ledger = RequestLedger(metrics, clock.monotonic, tenants=TenantLabels(1))
    told = refused_early(Records(kept.append, slos.load(), clock, crowd=kept.append), ledger)
    for tenant in ("flood", "flood", "late"):
        claim = Claim(TenantId(tenant), KeyId("k"))
        told(OverLimit("too many"), Early(RequestId("r"), claim, Api.CHAT, clock.monotonic(), {}))
    page = metrics.exposition().decode()
    assert 'penstock_early_refusals_total{outcome="over_limit",tenant="flood"} 2.0' in page
    assert 'penstock_early_refusals_total{outcome="over_limit",tenant="other"} 1.0' in page
    assert [record.tenant for record in kept] == ["flood", "flood", "late"]


KEEPS_LOG = (
    "/v1/chat/completions",
    "/v1/embeddings",
    "/v1/messages",
    "/v2/models/toy/infer",
    "/v1/models",
    "/v2/models/toy",
)
POSTS = 4
"""So many of those paths take a body."""
WELL_FORMED, UNKNOWN_KEY = mint(TenantId("gone"), pepper=b"p" * 32, now=0.0)


@pytest.mark.parametrize("path", KEEPS_LOG)
@pytest.mark.parametrize(
    ("credential", "who"),
    [
        (WELL_FORMED, Claim(TenantId(""), UNKNOWN_KEY.id)),
        (f"{SECRET[:-8]}wrong123", Claim()),
        ("", Claim()),
        ("psk_\x1b[2Jhahaha_x", Claim()),
    ],
)
async def test_every_401_leaves_the_key_that_it_names(path: str, credential: str, who: Claim) -> None:
    """On every path a refused credential leaves a record under its request's id, with its key's id if it has one."""
    kept, toy = list[Early](), Toy(hello)
    app = edge(toy, Limits(), keep=lambda _, early: kept.append(early))
    headers = {b"authorization": f"Bearer {credential}".encode()}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://g") as http:
        method = "POST" if path in KEEPS_LOG[:POSTS] else "GET"
        answer = await http.request(method, path, headers=headers)
    assert answer.status_code == 401
    assert [(one.id, one.who) for one in kept] == [(answer.headers["x-request-id"], who)]
    assert toy.seen.claims == [who]


async def test_a_key_with_another_secret_names_its_tenant() -> None:
    """Somebody who tries another secret under a key's id is shown to that key's tenant."""
    key = credentials.claimed(SECRET)
    stem = f"psk_{key}_{'x' * 43}"
    keys = edge(Toy(hello), Limits()).identity
    assert keys.claimed(f"{stem}{_checksum(stem)}") == Claim(TenantId("acme"), key)


async def test_a_flood_is_explained_from_its_first_to_its_last_refusal(tmp_path: Path, clock: ManualClock) -> None:
    """Each of five thousand refusals within a second is found by its id, and the folder stays within its bytes."""
    bounds = FolderBounds(most_bytes=8 << 20, keep_s=1e9)
    folder, crowd = RecordFolder(tmp_path, bounds, clock), RecordFolder(tmp_path / "refused", bounds, clock)
    records = Records(folder.keep, slos.load(), clock, crowd=crowd.keep)
    asking = RecordLookup(folder, crowd)
    error, who = OverLimit("too many"), Claim(TenantId("acme"), KeyId("k"))
    for number in range(5000):
        records.refused(error, Early(RequestId(f"r{number}"), who, "/v1"))
    operator = calls.principal(tenant=OPERATORS, role=Role.ADMIN)
    for number in (0, 199, 200, 4999):
        found = await asking.find(operator, f"r{number}")
        assert (found.tenant, found.key, found.outcome) == ("acme", "k", "over_limit")
    for number in range(60_000):
        records.refused(error, Early(RequestId(f"s{number}"), who, "/v1"))
        if number % 5000 == 0:
            await crowd.flush()
    await crowd.flush()
    assert sum(file.stat().st_size for file in (tmp_path / "refused").iterdir()) <= 8 << 20
    assert (await asking.find(operator, "s59999")).outcome == "over_limit"


def test_a_refusal_costs_microseconds(clock: ManualClock) -> None:
    """What a refusal adds to the loop stays under a tenth of a millisecond, also on a busy machine."""
    records = Records(lambda _: None, slos.load(), clock, crowd=lambda _: None)
    early, error = Early(RequestId("r"), Claim(TenantId("acme"), KeyId("k")), "/v1"), OverLimit("too many")
    took = min(timeit.repeat(lambda: records.refused(error, early), number=1000, repeat=5)) / 1000
    assert took < 1e-4
