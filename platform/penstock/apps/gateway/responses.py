"""``/v1/responses`` of a gateway: what stands in front of the pipeline for it, and the routes of stored responses."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from penstock.apps.gateway.offered import Offered
from penstock.apps.gateway.parts import Parts
from penstock.connectors.postgres.jobs import PostgresJobs
from penstock.connectors.postgres.stored_responses import PostgresStoredResponses
from penstock.gateway.deferred.access import Routes
from penstock.gateway.deferred.background_responses import StoredCorridor, UnstoredCorridor
from penstock.gateway.deferred.kept_responses import KeepOutcome, KeptResponses
from penstock.gateway.deferred.responses import Responses, add_responses
from penstock.gateway.deferred.stored_responses import StoredResponses
from penstock.gateway.deferred.stored_turns import StoredTurns, TurnCounts
from penstock.gateway.openai.idempotent import Once
from penstock.gateway.openai.services import Corridor
from penstock.jobs.responses import SubmittingResponses
from penstock.settings.processes import GatewaySettings
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics, begin_at_zero


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesApi:
    corridor: Corridor
    counting: Corridor
    routes: tuple[Routes, ...] = ()


def responses_api(
    settings: GatewaySettings, parts: Parts, later: Offered, once: Once, counting: Corridor
) -> ResponsesApi:
    """Return the API; without job runners nothing is stored, and what asks for it is refused."""
    if later.stores is None:
        return ResponsesApi(corridor=UnstoredCorridor(corridor=once), counting=counting)
    clock, stores = parts.shared.clock, later.stores
    slots = parts.shared.accounting.reservations
    rows, jobs = PostgresStoredResponses(later.database, clock), PostgresJobs(later.database)
    stored = StoredResponses(rows=rows, jobs=jobs, payloads=stores.payloads, clock=clock)
    turns = StoredTurns(stored=stored, reader=stores.accepting.reader, bounds=stores.accepting.bounds)
    kept = KeptResponses(
        corridor=once.corridor,
        turns=turns,
        rows=rows,
        payloads=stores.payloads,
        clock=clock,
        count=_counting(parts.shared.metrics),
    )
    background = SubmittingResponses(
        jobs=jobs, rows=rows, payloads=stores.payloads, accepting=stores.accepting, clock=clock, ids=stores.ids
    )
    corridor = StoredCorridor(
        kept=replace(once, corridor=kept),
        background=background,
        turns=turns,
        stored=stored,
        slots=slots,
        stall_s=settings.stream_stall_s,
    )
    routes = partial(
        add_responses,
        responses=Responses(stored=stored, jobs=jobs, keyed_answers=once.answers, slots=slots, clock=clock),
    )
    return ResponsesApi(corridor=corridor, counting=TurnCounts(corridor=counting, turns=turns), routes=(routes,))


def _counting(metrics: Metrics) -> Callable[[KeepOutcome], None]:
    kept = metrics.counter(names.KEPT_RESPONSES)
    begin_at_zero(kept, KeepOutcome)
    return lambda end: kept.labels(end).inc()
