"""The gateway's front: the servers and APIs over the pipeline, their bounds, answers under idempotency keys."""

from dataclasses import dataclass
from functools import partial

from penstock.apps.gateway import reading
from penstock.apps.gateway.offered import offered
from penstock.apps.gateway.parts import Parts
from penstock.apps.gateway.responses import responses_api
from penstock.apps.gateway.rpc import Rpc
from penstock.apps.gateway.shared import Shared
from penstock.apps.sharing import doubts_on_answers
from penstock.apps.stores import StoreKeys
from penstock.connectors.memory.answers import MemoryAnswers
from penstock.connectors.postgres.database import Database
from penstock.connectors.redis.answers import RedisAnswers
from penstock.connectors.redis.wire import Wire
from penstock.domain.errors import PenstockError
from penstock.domain.ids import RequestId
from penstock.domain.nonces import random_bytes
from penstock.domain.serving.idempotency import AnswerQuota, AnswerStore
from penstock.domain.tenancy.keys import Purpose, derive
from penstock.gateway.app.asgi import Edge
from penstock.gateway.app.cors import Origins
from penstock.gateway.app.routes import Refusals, application
from penstock.gateway.counting import Counting
from penstock.gateway.early import EarlyRefusal
from penstock.gateway.listener.errors import response_of
from penstock.gateway.openai.bounds import TableBounds
from penstock.gateway.openai.idempotent import Once
from penstock.gateway.openai.reading import BodyReader
from penstock.gateway.openai.services import Facts
from penstock.gateway.pipeline import Pipeline
from penstock.gateway.records.making import refused_early
from penstock.gateway.records.requests import RequestLedger
from penstock.intake.held import Intake
from penstock.intake.limits import Limits
from penstock.intake.server import EdgeServer, configure
from penstock.intake.turns import StartTurns
from penstock.intake.types import Refusal
from penstock.sealing.keys import Keys
from penstock.settings.processes import GatewaySettings
from penstock.telemetry import logs, names
from penstock.telemetry.w3c import own_span

ID_BYTES = 8
ANSWERS_PATIENCE_S = 0.5
"""Seconds that a request with an idempotency key waits for the answers' store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    server: EdgeServer
    rpc: Rpc
    database: Database
    """Of deferred work: to be open while the server serves."""
    keys: StoreKeys
    answers: AnswerStore


def front(settings: GatewaySettings, parts: Parts) -> Front:
    shared, pipeline, ledger, probes = parts.shared, parts.pipeline, parts.ledger, parts.probes
    limits = _limits(settings)
    facts = Facts(
        table=lambda: shared.table.view.table,
        missing=probes.missing,
        draining=lambda: probes.drain.is_on,
        serves=probes.serves,
        explain=shared.recording.explain,
    )
    origins = Origins(frozenset(filter(None, settings.cors_origins.split(","))))
    keep_early = refused_early(shared.recording.records, ledger)
    reader = BodyReader(shared.offload, task=reading.READ, tensors_task=reading.TENSORS, messages_task=reading.MESSAGES)
    turns = StartTurns(shared.clock.monotonic)
    later = offered(settings, parts, reader, turns, _new_id)
    answers = _answers(settings, shared, later.keys.answers)
    once = _once(settings, shared, pipeline, answers)
    counting = Counting(chooser=pipeline.chooser, rates=shared.accounting.reservations)
    stored = responses_api(settings, parts, later, once, counting)
    refusals = Refusals(probes.keys, ledger, keep_early)
    edge = Edge(
        corridor=once,
        responses=stored.corridor,
        counting=stored.counting,
        identity=probes.keys,
        clock=shared.clock,
        limits=limits,
        ids=_new_id,
        observer=ledger,
        rest=application(refusals, facts, ids=_new_id, origins=origins, deferred=(*later.routes, *stored.routes)),
        origins=origins,
        reader=reader,
        bounds=TableBounds(shared.table),
        intake=Intake(
            total_bytes=settings.max_held_bytes,
            most_arriving=max(1, settings.max_connections // 4),
            connections=settings.max_connections,
        ),
        turns=turns,
        table=facts.table,
        refuse_early=_early(shared, pipeline).check,
        is_recorded=once.is_recorded,
        keep_early=keep_early,
        region=settings.region,
        trace=(lambda given: own_span(given, settings.trace_ratio, shared.chance)) if parts.traces is not None else str,
    )
    config = configure(edge, limits, edge.intake, answer=partial(_answer, ledger), ids=_new_id, drain=probes.drain)
    rpc = Rpc(edge, facts)
    return Front(
        server=EdgeServer(config, rpc.drain), rpc=rpc, database=later.database, keys=later.keys, answers=answers
    )


def _answer(ledger: RequestLedger, error: PenstockError, request_id: RequestId) -> Refusal:
    ledger.refused(error, request_id)
    return response_of(error, request_id)


def _once(settings: GatewaySettings, shared: Shared, pipeline: Pipeline, answers: AnswerStore) -> Once:
    used = shared.metrics.counter(names.IDEMPOTENT_REQUESTS)
    return Once(
        pipeline,
        answers,
        stall_s=settings.stream_stall_s,
        count=lambda use: used.labels(use).inc(),
        note=shared.recording.records.replayed,
    )


def _answers(settings: GatewaySettings, shared: Shared, keys: Keys) -> AnswerStore:
    if doubt := doubts_on_answers(settings):
        logs.logger().warning("answers_kept_doubtfully", detail=doubt)
    quota = AnswerQuota(max_bytes=settings.answers_tenant_bytes, max_records=settings.answers_tenant_records)
    if not settings.answers_url:
        return MemoryAnswers(shared.clock, quota)
    print_key = derive(shared.keys.platform[0], Purpose.ANSWERS)
    return RedisAnswers(Wire(settings.answers_address, patience_s=ANSWERS_PATIENCE_S), keys, print_key, quota)


def _early(shared: Shared, pipeline: Pipeline) -> EarlyRefusal:
    return EarlyRefusal(
        table=shared.table,
        by_workers=pipeline.router.refusal,
        by_limits=shared.accounting.reservations.refuse_early,
    )


def _new_id() -> str:
    return random_bytes(ID_BYTES).hex()


def _limits(settings: GatewaySettings) -> Limits:
    return Limits(
        body_bytes=settings.max_body_bytes,
        header_bytes=settings.max_header_bytes,
        connections=settings.max_connections,
        header_timeout_s=settings.header_timeout_s,
        body_timeout_s=settings.body_timeout_s,
        keep_alive_s=settings.keep_alive_s,
        write_buffer_bytes=settings.stream_buffer_bytes,
        unread_s=settings.stream_stall_s,
        drain_grace_s=settings.drain_grace_s,
    )
