"""Jobs, batches, files and webhooks by the settings: what a runner does beside jobs."""

from collections.abc import Callable
from secrets import token_hex

from penstock.apps.gateway import reading
from penstock.apps.gateway.offered import networks
from penstock.apps.gateway.parts import Parts
from penstock.apps.gateway.shared import Shared
from penstock.apps.stores import StoreKeys
from penstock.connectors.postgres.batches import PostgresBatchWork
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.deletions import PostgresErasing
from penstock.connectors.postgres.files import PostgresFiles
from penstock.connectors.postgres.retention import PostgresExpiringJobs, PostgresExpiringTexts, PostgresOpenBatches
from penstock.connectors.postgres.stored_responses import PostgresStoredResponses
from penstock.connectors.postgres.webhooks import PostgresDeliveries
from penstock.connectors.webhooks.sender import WebhookSender
from penstock.domain.ids import KeyId, RequestId, TenantId
from penstock.domain.jobs.deletion import user_mark
from penstock.domain.jobs.ids import RunnerId
from penstock.domain.jobs.payload import PayloadStore
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.openai.bounds import TableBounds
from penstock.gateway.openai.reading import BodyReader
from penstock.gateway.routing.resolve import TableResolver
from penstock.jobs.batches import BatchClosing, BatchJudging, BatchParts
from penstock.jobs.deliveries import Deliveries
from penstock.jobs.erasing import Erasing
from penstock.jobs.principal import as_batch
from penstock.jobs.retention import Retention
from penstock.jobs.shown import BatchMetrics
from penstock.jobs.upkeep import Upkeep
from penstock.jobs.validation import Validator
from penstock.sealing.keys import Keys
from penstock.settings.deferred import DeferredSettings

ID_BYTES = 10
"""Random bytes of a file's id, and of the stem of a batch's lines."""


def upkeep(
    settings: DeferredSettings,
    parts: Parts,
    database: Database,
    payloads: PayloadStore,
    keys: StoreKeys,
    me: Callable[[], RunnerId | None],
) -> tuple[Upkeep, ...]:
    sent = PostgresDeliveries(database, keys.webhooks)
    loops = (deliveries(settings, parts.shared, sent, me), *batches(parts, database, payloads, me))
    return (*loops, retention(parts.shared, database, payloads), erasing(parts, database, payloads, keys.payloads))


def erasing(parts: Parts, database: Database, payloads: PayloadStore, keys: Keys) -> Erasing:
    def marks(tenant: TenantId, user: str) -> tuple[str, ...]:
        return tuple(user_mark(key, tenant, user) for key in parts.shared.ticket_keys.platform)

    return Erasing(PostgresErasing(database), payloads, keys, marks)


def retention(shared: Shared, database: Database, payloads: PayloadStore) -> Retention:
    responses = PostgresStoredResponses(database, shared.clock)
    jobs = (PostgresExpiringJobs(database), PostgresOpenBatches(database), PostgresExpiringTexts(database))
    return Retention(payloads, (PostgresFiles(database), *jobs, responses))


def batches(
    parts: Parts, database: Database, payloads: PayloadStore, me: Callable[[], RunnerId | None]
) -> tuple[Upkeep, ...]:
    """Return the loops that judge files of batches, and write their results."""
    shared, holder = parts.shared, parts.probes.keys.holder
    work = BatchParts(
        store=PostgresBatchWork(database),
        me=me,
        payloads=payloads,
        clock=shared.clock,
        ids=lambda: token_hex(ID_BYTES),
        crashed=lambda error: parts.ledger.crashed(error, RequestId("")),
        closed=BatchMetrics(shared.metrics).closed,
    )
    validator = Validator(
        names=TableResolver(shared.table),
        bodies=BodyReader(shared.offload, task=reading.READ),
        bounds=TableBounds(shared.table),
        region=shared.settings.region,
        monotonic=shared.clock.monotonic,
    )

    def principal(_tenant: TenantId, key: KeyId) -> Principal | None:
        return None if (found := holder(key)) is None else as_batch(found)

    return BatchJudging(work, validator, principal), BatchClosing(work)


def deliveries(
    settings: DeferredSettings, shared: Shared, store: PostgresDeliveries, me: Callable[[], RunnerId | None]
) -> Deliveries:
    """Return the loop that sends webhooks; ``me`` returns this runner's id, None while it may not claim."""
    clock = shared.clock
    return Deliveries(
        store=store,
        sender=WebhookSender(clock.now, allowed=networks(settings), proxy=settings.webhook_proxy),
        me=me,
        clock=clock,
        chance=shared.chance,
        metrics=shared.metrics,
    )
