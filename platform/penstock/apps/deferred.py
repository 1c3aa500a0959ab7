"""Jobs, batches, files and webhooks by the settings: what a runner does beside jobs."""

from collections.abc import Callable

from penstock.apps.gateway.offered import networks, webhook_keys
from penstock.apps.gateway.parts import Parts
from penstock.apps.gateway.shared import Shared
from penstock.apps.settings.deferred import DeferredSettings
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.webhooks import PostgresDeliveries
from penstock.connectors.webhooks.sender import WebhookSender
from penstock.jobs.deliveries import Deliveries
from penstock.jobs.upkeep import Upkeep


def upkeep(
    settings: DeferredSettings, parts: Parts, database: Database, me: Callable[[], int | None]
) -> tuple[Upkeep, ...]:
    """Return a runner's loops beside its jobs."""
    return (deliveries(settings, parts.shared, database, me),)


def deliveries(
    settings: DeferredSettings, shared: Shared, database: Database, me: Callable[[], int | None]
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
