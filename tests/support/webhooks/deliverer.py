"""Program: the deliveries of one runner, with a runner's life, and nothing else of it.

    python -m tests.support.webhooks.deliverer DSN KEY_HEX

Prints its runner's id at the start. It delivers to loopback, too.
"""

import asyncio
import random
import sys

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.runners import PostgresRunnerLife, PostgresRunners
from penstock.connectors.postgres.webhooks import PostgresDeliveries
from penstock.connectors.webhooks.sender import WebhookSender
from penstock.domain.clock import HeardClock, SystemClock
from penstock.domain.jobs.callback_url import networks
from penstock.domain.jobs.ids import RunnerId
from penstock.jobs.deliveries import Deliveries
from penstock.telemetry.metrics import Metrics
from tests.support.lines import say
from tests.support.sealing import FixedKeys


def deliveries(database: Database, key: bytes, me: RunnerId) -> Deliveries:
    clock = SystemClock()
    return Deliveries(
        store=PostgresDeliveries(database, FixedKeys(key)),
        sender=WebhookSender(clock.now, allowed=networks(["127.0.0.0/8"])),
        me=lambda: me,
        clock=clock,
        chance=random.Random(1),
        metrics=Metrics(),
    )


async def forever(work: Deliveries) -> None:
    while True:
        await work.step(work.clock.now())
        await asyncio.sleep(work.every_s)


async def attempted(work: Deliveries) -> None:
    """Step until nothing that is due is left, and all ends are noted."""
    for _ in range(3):
        await work.step(work.clock.now())
        while work.is_busy:  # noqa: ASYNC110  nobody is told of an attempt's end
            await asyncio.sleep(0.01)
    await work.step(work.clock.now())


async def pass_time(database: Database, seconds: float) -> None:
    """Move what was noted into the past: what is due is judged by the database's clock."""
    await database.rows(
        "update webhook_delivery set next_at = next_at - $1, created_at = created_at - $1, "
        "ended_at = case when ended_at > 0 then ended_at - $1 else 0 end",
        seconds,
    )
    await database.rows(
        "update webhook_endpoint set not_before = not_before - $1, answered_at = answered_at - $1, "
        "previous_until = previous_until - $1, "
        "failing_since = case when failing_since > 0 then failing_since - $1 else 0 end",
        seconds,
    )
    await database.rows("update webhook_event set created_at = created_at - $1", seconds)


async def run(dsn: str, key: bytes) -> None:
    clock = HeardClock()
    life = PostgresRunnerLife(dsn, "deliverer", clock)
    async with Database(dsn) as database:
        me, others = await life.confirm(), PostgresRunners(database, clock)
        say(me)
        work = deliveries(database, key, me)
        while True:
            assert await life.confirm() == me
            await others.take_over(me, clock.now())
            await work.step(clock.now())
            await asyncio.sleep(work.every_s)


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], bytes.fromhex(sys.argv[2])))
