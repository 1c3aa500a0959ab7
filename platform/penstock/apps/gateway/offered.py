"""Jobs, batches, files and webhooks that a gateway accepts by its settings: their routes, and their stores."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from penstock.apps.gateway.parts import Parts
from penstock.apps.stores import StoreKeys, database_dsn, open_keys, open_payloads
from penstock.connectors.postgres.batches import PostgresBatches
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.files import PostgresFiles
from penstock.connectors.postgres.jobs import PostgresJobs
from penstock.connectors.postgres.webhooks import PostgresEndpoints
from penstock.domain.jobs import callback_url
from penstock.domain.jobs.callback_url import Network
from penstock.domain.jobs.payload import PayloadStore
from penstock.gateway.deferred.access import Routes
from penstock.gateway.deferred.batches import add_batches
from penstock.gateway.deferred.files import add_files
from penstock.gateway.deferred.jobs import add_jobs
from penstock.gateway.deferred.submits import Submits
from penstock.gateway.deferred.webhooks import Webhooks
from penstock.gateway.openai.bounds import TableBounds
from penstock.gateway.openai.reading import BodyReader
from penstock.intake.turns import StartTurns
from penstock.jobs.accepting import Accepting
from penstock.jobs.batch_intake import BatchIntake
from penstock.jobs.files import TenantFiles
from penstock.jobs.submitting import Submitting
from penstock.settings.deferred import DeferredSettings
from penstock.settings.processes import GatewaySettings

CONNECTIONS = 8
"""Database connections of one gateway for deferred work: a statement takes milliseconds, and submits are bounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """What a gateway takes deferred work in with."""

    payloads: PayloadStore
    accepting: Accepting
    ids: Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """A gateway's routes of deferred work, and the database to be open while it serves."""

    database: Database
    keys: StoreKeys
    stores: Stores | None = None
    routes: tuple[Routes, ...] = ()


def offered(
    settings: GatewaySettings, parts: Parts, reader: BodyReader, turns: StartTurns, ids: Callable[[], str]
) -> Offered:
    database = Database(database_dsn(settings), max_connections=CONNECTIONS)
    shared = parts.shared
    keys = open_keys(settings, database, lambda: shared.ticket_keys.platform, shared.clock)
    shared.accounting.texts.open(keys.payloads)
    if not settings.job_runners:
        return Offered(database=database, keys=keys)
    endpoints, submits = (
        Webhooks(PostgresEndpoints(database, keys.webhooks), networks(settings)),
        Submits(turns, shared.clock),
    )
    accepting = Accepting(
        reader=reader,
        chooser=parts.pipeline.chooser,
        bounds=TableBounds(shared.table),
        clock=shared.clock,
        region=settings.region,
    )
    stores = Stores(payloads=open_payloads(settings, keys.payloads), accepting=accepting, ids=ids)
    jobs = Submitting(
        store=PostgresJobs(database),
        payloads=stores.payloads,
        accepting=accepting,
        webhooks=endpoints,
        workers=shared.table,
        clock=shared.clock,
        ids=ids,
    )
    files = TenantFiles(PostgresFiles(database), stores.payloads, shared.clock)
    records = PostgresBatches(database)
    batches = BatchIntake(store=records, workers=shared.table, clock=shared.clock, ids=ids)
    routes = (
        partial(add_jobs, jobs=jobs, submits=submits),
        partial(add_files, files=files),
        partial(add_batches, batches=batches),
        endpoints.routes,
    )
    return Offered(database=database, keys=keys, stores=stores, routes=routes)


def networks(settings: DeferredSettings) -> tuple[Network, ...]:
    return callback_url.networks(settings.webhook_networks.split(","))
