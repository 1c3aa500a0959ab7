"""Jobs, batches, files and webhooks by the settings: what a gateway accepts, and what a runner does beside jobs."""

from collections.abc import Callable, Sequence

from penstock.apps.gateway.parts import Parts
from penstock.apps.gateway.shared import Shared
from penstock.apps.settings.deferred import DeferredSettings
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.webhooks import PostgresDeliveries, PostgresEndpoints
from penstock.connectors.webhooks.sender import WebhookSender
from penstock.domain.jobs import callback_url
from penstock.domain.jobs.callback_url import Network
from penstock.domain.jobs.ids import RunnerId
from penstock.domain.tenancy.keys import Purpose, derive
from penstock.gateway.deferred.webhooks import Webhooks
from penstock.jobs.deliveries import Deliveries
from penstock.jobs.upkeep import Upkeep


def upkeep(settings: DeferredSettings, parts: Parts) -> tuple[Upkeep, ...]:
    """Return a runner's loops beside its jobs."""
    del settings, parts
    return ()


def webhooks(settings: DeferredSettings, shared: Shared, database: Database) -> Webhooks:
    return Webhooks(PostgresEndpoints(database, lambda: _webhook_keys(shared)), _networks(settings))


def deliveries(
    settings: DeferredSettings, shared: Shared, database: Database, me: Callable[[], RunnerId | None]
) -> Deliveries:
    """Return the loop that sends webhooks; ``me`` returns this runner's id, None while it may not claim."""
    clock = shared.clock
    return Deliveries(
        store=PostgresDeliveries(database, lambda: _webhook_keys(shared)),
        sender=WebhookSender(clock.now, allowed=_networks(settings), proxy=settings.webhook_proxy),
        me=me,
        clock=clock,
        chance=shared.chance,
        metrics=shared.metrics,
    )


def _networks(settings: DeferredSettings) -> tuple[Network, ...]:
    return callback_url.networks(settings.webhook_networks.split(","))


def _webhook_keys(shared: Shared) -> Sequence[bytes]:
    return tuple(derive(key, Purpose.WEBHOOKS) for key in shared.keys.platform)
