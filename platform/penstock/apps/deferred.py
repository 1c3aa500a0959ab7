"""Jobs, batches, files and webhooks by the settings: what a runner does beside jobs."""

from collections.abc import Callable

from penstock.apps.gateway.offered import networks, webhook_keys
from penstock.apps.gateway.parts import Parts
from penstock.apps.gateway.shared import Shared
from penstock.apps.settings.deferred import DeferredSettings
from penstock.apps.stores import open_payloads
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.files import PostgresFiles
from penstock.connectors.postgres.retention import PostgresExpiringJobs, PostgresOpenBatches
from penstock.connectors.postgres.webhooks import PostgresDeliveries
from penstock.connectors.webhooks.sender import WebhookSender
from penstock.domain.jobs.ids import RunnerId
from penstock.jobs.deliveries import Deliveries
from penstock.jobs.retention import Retention
from penstock.jobs.upkeep import Upkeep


def upkeep(
    settings: DeferredSettings, parts: Parts, database: Database, me: Callable[[], RunnerId | None]
) -> tuple[Upkeep, ...]:
    """Return a runner's loops beside its jobs."""
    return (deliveries(settings, parts.shared, database, me), retention(settings, parts.shared, database))


def retention(settings: DeferredSettings, shared: Shared, database: Database) -> Retention:
    payloads = open_payloads(settings, lambda: shared.ticket_keys.platform)
    owners = (PostgresFiles(database), PostgresExpiringJobs(database), PostgresOpenBatches(database))
    return Retention(payloads, owners)


def deliveries(
    settings: DeferredSettings, shared: Shared, database: Database, me: Callable[[], RunnerId | None]
) -> Deliveries:
    """Return the loop that sends webhooks; ``me`` returns this runner's id, None while it may not claim."""
    clock = shared.clock
    return Deliveries(
        store=PostgresDeliveries(database, lambda: webhook_keys(shared)),
        sender=WebhookSender(clock.now, allowed=networks(settings), proxy=settings.webhook_proxy),
        me=me,
        clock=clock,
        chance=shared.chance,
        metrics=shared.metrics,
    )
