"""A jobs runner by the settings: its jobs over one process's pipeline."""

from penstock.apps.gateway import reading
from penstock.apps.gateway.parts import Parts
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.jobs import PostgresJobs
from penstock.connectors.postgres.runners import PostgresRunners
from penstock.connectors.postgres.stored_responses import PostgresStoredResponses
from penstock.domain.ids import KeyId, VersionId
from penstock.domain.jobs.payload import PayloadStore
from penstock.gateway.identity.keyring import Keyring
from penstock.gateway.openai.bounds import TableBounds
from penstock.gateway.openai.reading import BodyReader
from penstock.jobs.asking import Asking
from penstock.jobs.bills import Bills
from penstock.jobs.ending import Endings
from penstock.jobs.held import HeldJobs, VersionLoads
from penstock.jobs.hours import ClosedTenants
from penstock.jobs.ports import RunnerLife
from penstock.jobs.response_attempts import ResponseAttempts
from penstock.jobs.running import Runner
from penstock.jobs.shown import RunnerMetrics

CONNECTIONS = 4
"""Of a runner: a claim, a group of ends, a question and an upkeep at a time."""


def compose(parts: Parts, database: Database, payloads: PayloadStore, life: RunnerLife, bills: Bills) -> Runner:
    shared, keyring = parts.shared, parts.probes.keys
    metrics, store = RunnerMetrics(shared.metrics), PostgresJobs(database)
    held, plans = HeldJobs(lambda: _loads(parts), shared.clock.monotonic), ClosedTenants()
    asking = Asking(
        ask=parts.pipeline.ask,
        payloads=payloads,
        reader=BodyReader(shared.offload, task=reading.READ),
        bounds=TableBounds(shared.table),
        holder=keyring.holder,
        clock=shared.clock,
        responses=ResponseAttempts(
            rows=PostgresStoredResponses(database, shared.clock), payloads=payloads, bills=bills, clock=shared.clock
        ),
    )
    endings = Endings(store=store, payloads=payloads, clock=shared.clock, ended=metrics.ended, fenced=metrics.fenced)
    metrics.watch(held, endings)
    return Runner(
        store=store,
        life=life,
        others=PostgresRunners(database, shared.clock),
        asking=asking,
        held=held,
        endings=endings,
        bills=bills,
        plans=lambda now: plans.at(now, keyring.ring.tenants),
        is_revoked=lambda key: _is_revoked(keyring, key),
        clock=shared.clock,
        chance=shared.chance,
        metrics=metrics,
    )


def _loads(parts: Parts) -> dict[VersionId, VersionLoads]:
    found, rosters = dict[VersionId, VersionLoads](), parts.shared.table.view.rosters
    for one in parts.shared.table.view.table.versions:
        pools = tuple([worker.pools for worker in rosters[one.id].serving or one.workers])
        found[one.id] = VersionLoads(parts.router.loads(one.id), one.max_num_seqs, pools)
    return found


def _is_revoked(keyring: Keyring, key: KeyId) -> bool:
    return len(keyring) > 0 and keyring.holder(key) is None
