"""The audit log's promise about alarms: one row each, in memory and in Postgres."""

import asyncio
from dataclasses import replace

import pytest

from penstock.connectors.postgres.audit import PostgresAudit
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.webhooks import PostgresEndpoints
from penstock.control.api.ports import AuditLog
from penstock.domain.ids import KeyId, TenantId
from penstock.domain.tenancy.audit import Selection
from tests.support.samples import control_plane as things
from tests.support.sealing import FixedKeys
from tests.twins.audit import MemoryAudit

ALARM = things.act("budget.threshold", target="tenant:t:spend:2026-11-21/100@50")


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def log(request: pytest.FixtureRequest) -> AuditLog:
    if request.param == "memory":
        return MemoryAudit()
    return PostgresAudit(request.getfixturevalue("database"))


async def test_an_alarm_is_noted_once_however_many_notice_it(log: AuditLog) -> None:
    """Of ten controllers at once one writes it, and later ones find it; another threshold is another alarm."""
    noticed = await asyncio.gather(*(log.note_threshold(replace(ALARM, at=float(i))) for i in range(10)))
    assert sum(noticed) == 1
    assert await log.note_threshold(ALARM) is False
    assert await log.note_threshold(replace(ALARM, target="tenant:t:spend:2026-11-21/100@80")) is True
    assert len(await log.newest(99)) == 2


@pytest.mark.parametrize(
    ("of", "found"),
    [
        (Selection(), "dcba"),
        (Selection(what="key"), "da"),
        (Selection(what="key.mint"), "a"),
        (Selection(what="ke"), ""),
        (Selection(who="k2"), "cb"),
        (Selection(since=2.0, until=4.0), "cb"),
        (Selection(since=2.0, who="k1"), "d"),
    ],
)
async def test_acts_are_selected_by_time_actor_and_action(log: AuditLog, of: Selection, found: str) -> None:
    """An action's first word stands for all of its kind; begin is in, end is out; the newest come first."""
    for target, who, what in (
        ("a", "k1", "key.mint"),
        ("b", "k2", "keyring.x"),
        ("c", "k2", "tenant.plan"),
        ("d", "k1", "key.plan"),
    ):
        await log.note(replace(things.act(what, target=target), who=who, at=float(ord(target) - ord("a") + 1)))
    assert "".join(act.target for act in await log.newest(99, of=of)) == found
    assert "".join(act.target for act in await log.newest(1, of=of)) == found[:1]


async def test_other_acts_may_repeat(log: AuditLog) -> None:
    """Doing the same thing to the same target twice is two rows."""
    for _ in range(2):
        await log.note(things.act("key.plan", target="key:k"))
    assert len(await log.newest(99)) == 2


@pytest.mark.integration
async def test_an_alarm_is_told_to_the_tenants_webhooks_once(database: Database) -> None:
    """With the alarm's row: again after a restart, or by another controller, nothing is told."""
    endpoints = PostgresEndpoints(database, FixedKeys())
    alarm = replace(ALARM, tenant=TenantId("shop"))
    for tenant in (alarm.tenant, TenantId("other")):
        await endpoints.create(tenant, KeyId("k"), "https://example.com/", ["budget.threshold"], b"s" * 32)
    for _ in range(3):
        await PostgresAudit(database).note_threshold(alarm)
    told = await database.rows(
        "select e.tenant, v.type, v.object from webhook_delivery d "
        "join webhook_event v on v.id = d.event join webhook_endpoint e on e.id = d.endpoint"
    )
    assert [tuple(row.values()) for row in told] == [("shop", "budget.threshold", ALARM.target)]
