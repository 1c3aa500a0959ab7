"""The audit log's promise about alarms: one row each, in memory and in Postgres."""

import asyncio
from dataclasses import replace

import pytest

from penstock.adapters.memory.audit import MemoryAudit
from penstock.adapters.postgres.audit import PostgresAudit
from penstock.control.api.ports import AuditLog
from tests.support import control_things as things

ALARM = things.act("budget.threshold", target="tenant:t:spend:2026-11-21/100@50")


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def log(request: pytest.FixtureRequest) -> AuditLog:
    """Return an empty log."""
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


async def test_other_acts_may_repeat(log: AuditLog) -> None:
    """Doing the same thing to the same target twice is two rows."""
    for _ in range(2):
        await log.note(things.act("key.plan", target="key:k"))
    assert len(await log.newest(99)) == 2
