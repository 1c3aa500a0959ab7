"""Jobs, batches, files and webhooks by the settings: what a gateway accepts, and what a runner does beside jobs."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from penstock.apps.gateway.parts import Parts
from penstock.apps.settings.deferred import DeferredSettings
from penstock.apps.settings.processes import GatewaySettings
from penstock.apps.stores import database_dsn, open_payloads
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.jobs import PostgresJobs
from penstock.domain.jobs.payload import PayloadStore
from penstock.gateway.deferred.access import Routes
from penstock.gateway.deferred.jobs import add_jobs
from penstock.gateway.deferred.submits import Submits
from penstock.gateway.openai.bounds import TableBounds
from penstock.gateway.openai.reading import BodyReader
from penstock.intake.turns import StartTurns
from penstock.jobs.accepting import Accepting
from penstock.jobs.submitting import Submitting
from penstock.jobs.upkeep import Upkeep

CONNECTIONS = 8
"""Database connections of one gateway for deferred work: a statement takes milliseconds, and submits are bounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """What a gateway offers of deferred work: its routes, and the database to be open while it serves."""

    database: Database
    routes: tuple[Routes, ...] = ()


def upkeep(settings: DeferredSettings, parts: Parts) -> tuple[Upkeep, ...]:
    """Return a runner's loops beside its jobs."""
    del settings, parts
    return ()


def offered(
    settings: GatewaySettings, parts: Parts, reader: BodyReader, turns: StartTurns, ids: Callable[[], str]
) -> Offered:
    database = Database(database_dsn(settings), max_connections=CONNECTIONS)
    if not settings.job_runners:
        return Offered(database=database)
    shared = parts.shared
    payloads: PayloadStore = open_payloads(settings, lambda: shared.keys)
    accepting = Accepting(
        reader=reader,
        chooser=parts.pipeline.chooser,
        bounds=TableBounds(shared.table),
        clock=shared.clock,
        region=settings.region,
    )
    jobs = Submitting(
        store=PostgresJobs(database),
        payloads=payloads,
        accepting=accepting,
        clock=shared.clock,
        ids=ids,
    )
    submits = Submits(turns, shared.clock)
    return Offered(database=database, routes=(partial(add_jobs, jobs=jobs, submits=submits),))
