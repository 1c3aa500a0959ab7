"""Gateways that store responses, over one store: the real edge and payloads, a toy in the pipeline's place.

The toy answers as vLLM does; a background response waits until a test runs its job.
"""

import asyncio
import itertools
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import msgspec

from penstock.connectors.memory.answers import MemoryAnswers
from penstock.connectors.memory.limits import MemoryLimits
from penstock.connectors.payloads.folder import FolderObjects
from penstock.connectors.payloads.store import SealedPayloads
from penstock.domain.clock import SystemClock
from penstock.domain.errors import IdempotencyMismatch
from penstock.domain.ids import RequestId, TenantId, VersionId
from penstock.domain.jobs.ids import JobId, JobName
from penstock.domain.jobs.job import EnqueueLimits, Job, JobState, NewJob, Reason, Submitted
from penstock.domain.jobs.payload import NO_EXTENT, Extent, object_id
from penstock.domain.jobs.stored_response import ResponseId
from penstock.domain.money import FREE
from penstock.domain.outcome import Outcome
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.keys import mint
from penstock.domain.tenancy.ledger import LedgerRow, Opening
from penstock.domain.tenancy.tenant import KeyRing, Principal, Tenant
from penstock.gateway.admission.expectation import OutputExpectation
from penstock.gateway.admission.reservations import Reservations
from penstock.gateway.app.asgi import Edge
from penstock.gateway.calls.call import Call
from penstock.gateway.calls.relay import Reply
from penstock.gateway.deferred import response_events
from penstock.gateway.deferred.background_responses import StoredCorridor
from penstock.gateway.deferred.kept_responses import KeepOutcome, KeptResponses
from penstock.gateway.deferred.responses import Responses, add_responses
from penstock.gateway.deferred.stored_responses import StoredResponses
from penstock.gateway.deferred.stored_turns import StoredTurns, TurnCounts
from penstock.gateway.identity.keyring import Keyring
from penstock.gateway.openai.bounds import UNBOUNDED
from penstock.gateway.openai.idempotent import Once
from penstock.gateway.openai.reading import BodyReader
from penstock.intake.limits import Limits
from penstock.jobs.accepting import Accepted
from penstock.jobs.response_attempts import AttemptReply, ResponseAttempts
from penstock.jobs.responses import SubmittingResponses
from tests.support.gateways.toy import PEPPER, RING, SECRET, Toy, edge
from tests.support.sealing import FixedKeys
from tests.twins.stored_responses import MemoryStoredResponses

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class _NoBills:
    def so_far(self, request: RequestId, output_tokens: int, now: float) -> None: ...


class NoJournal:
    def opened(self, opening: Opening) -> None: ...

    def delivered(self, request: RequestId, tokens: int) -> None: ...

    def closed(self, row: LedgerRow) -> None: ...


OTHER_SECRET, _OTHER_KEY = mint(TenantId("globex"), pepper=PEPPER, now=0.0)
_TWO = KeyRing(tenants=(*RING.tenants, Tenant(id=TenantId("globex"), name="Globex")), keys=(*RING.keys, _OTHER_KEY))
Item = dict[str, object]


def said(text: str) -> Item:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": f"msg_{text}", "role": "assistant", "status": "completed", "content": [part]}


def of_engine(request: RequestId, status: str, output: list[Item]) -> Item:
    return {
        "id": f"resp_{request}",
        "object": "response",
        "status": status,
        "model": "m@1",
        "output": output,
        "background": False,
        "previous_response_id": None,
    }


def events(request: RequestId, *texts: str, ends: str = "completed") -> bytes:
    """Return the events of an answer with one message for each text; ``ends`` empty breaks it off."""
    begun = of_engine(request, "in_progress", [])
    out: list[Item] = [{"type": f"response.{kind}", "response": begun} for kind in ("created", "in_progress")]
    for index, text in enumerate(texts):
        out.append({"type": "response.output_item.added", "output_index": index, "item": said(text)})
        out.append({"type": "response.output_text.delta", "output_index": index, "delta": text})
        if ends:
            out.append({"type": "response.output_item.done", "output_index": index, "item": said(text)})
    if ends:
        final = of_engine(request, ends, [said(text) for text in texts])
        out.append({"type": "response.completed", "response": final})
    return b"".join(response_events.encoded(event, number) for number, event in enumerate(out))


async def answered(call: Call, reply: Reply) -> Outcome:
    """Answer with the number of items that the input has."""
    request, given = call.request, call.request.body["input"]
    text = str(len(given) if isinstance(given, list) else 1)
    if request.stream:
        reply.start(200, [(b"content-type", b"text/event-stream")])
        reply.write(events(request.id, text))
    else:
        body = msgspec.json.encode(of_engine(request.id, "completed", [said(text)]))
        reply.start(200, [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))])
        reply.write(body)
    reply.finish()
    return Outcome.OK


class Jobs:
    """The part of a job store that gateways use, in memory."""

    def __init__(self, rows: MemoryStoredResponses) -> None:
        self._rows = rows
        self._jobs: dict[str, Job] = {}
        self._keys: dict[tuple[TenantId, str], str] = {}
        self.stops_at_once = True
        self.submitted = asyncio.Event()
        self.newest = ResponseId("")

    async def submit(self, new: NewJob, limits: EnqueueLimits) -> Submitted:
        del limits
        known = self._keys.get((new.tenant, new.idempotency)) if new.idempotency else None
        if known is not None:
            job = self._jobs[known]
            if job.fingerprint != new.fingerprint:
                raise IdempotencyMismatch
            return Submitted(job=job, is_new=False)
        self._keys[new.tenant, new.idempotency] = new.name
        self.newest = ResponseId(new.name)
        self.submitted.set()
        self._jobs[new.name] = job = _queued(new, JobId(len(self._jobs) + 1))
        return Submitted(job=job, is_new=True)

    async def find(self, tenant: TenantId, name: JobName, now: float) -> Job | None:
        del now
        job = self._jobs.get(name)
        return job if job is not None and job.tenant == tenant else None

    async def cancel(self, tenant: TenantId, name: JobName, now: float) -> Job | None:
        job = await self.find(tenant, name, now)
        if job is None or not job.state.is_open:
            return job
        is_over = job.state is JobState.QUEUED or self.stops_at_once
        return self.put(replace(job, cancel_asked_at=now, state=JobState.CANCELLED if is_over else job.state))

    async def delete(self, tenant: TenantId, name: JobName, now: float) -> Job | None:
        del tenant, now
        return self._jobs.pop(name, None)

    def put(self, job: Job) -> Job:
        self._jobs[job.name] = job
        return job

    def claimed(self, name: str) -> Job:
        """Hand the job to a runner; an earlier one has lost it from here on."""
        job = self._jobs[name]
        self._rows.holders[ResponseId(name)] = job.epoch + 1
        return self.put(replace(job, state=JobState.RUNNING, epoch=job.epoch + 1, attempt=job.attempt + 1))


def _queued(new: NewJob, number: JobId) -> Job:
    same = {name: getattr(new, name) for name in NewJob.__slots__ if name in Job.__slots__}
    return Job(
        **same,
        id=number,
        state=JobState.QUEUED,
        reason=Reason.NONE,
        attempt=0,
        epoch=0,
        runner=None,
        started_at=0.0,
        ended_at=0.0,
        cancel_asked_at=0.0,
        expires_at=0.0,
        output=NO_EXTENT,
        status=0,
        error="",
        request=RequestId(""),
        prompt_tokens=0,
        output_tokens=0,
    )


class _Accepting:
    """Accepts everything: the real one has its own tests."""

    async def accept(self, who: Principal, api: Api, raw: bytes) -> Accepted:
        del who, api, raw
        return Accepted(model="m", version=VersionId("m@1"), cost_tokens=1, cost_micro_usd=FREE)


@dataclass
class Site:
    """A region's stores, and gateways over them."""

    folder: Path
    counted: list[KeepOutcome] = field(default_factory=list)
    ring: KeyRing = _TWO

    def __post_init__(self) -> None:
        clock = self.clock = SystemClock()
        self.rows = MemoryStoredResponses(clock)
        self.jobs = Jobs(self.rows)
        self.keys = FixedKeys()
        self.payloads = SealedPayloads(FolderObjects(self.folder), self.keys)
        self.stored = StoredResponses(rows=self.rows, jobs=self.jobs, payloads=self.payloads, clock=clock)
        self.attempts = ResponseAttempts(rows=self.rows, payloads=self.payloads, bills=_NoBills(), clock=clock)
        self.answers = MemoryAnswers(clock)
        self.toy = Toy(answered)
        self._ids = itertools.count(1)
        self.slots = Reservations(
            store=MemoryLimits(clock),
            journal=NoJournal(),
            expectation=OutputExpectation(),
            clock=clock,
            spawn=asyncio.ensure_future,
        )

    @asynccontextmanager
    async def gateway(self, secret: str = SECRET) -> "AsyncIterator[httpx.AsyncClient]":
        """Yield a client of a gateway of its own."""
        transport = httpx.ASGITransport(app=self._edge(), raise_app_exceptions=False)
        headers = {"authorization": f"Bearer {secret}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers) as http:
            yield http

    def _edge(self) -> Edge:
        turns = StoredTurns(stored=self.stored, reader=BodyReader(), bounds=lambda _: UNBOUNDED)
        kept = KeptResponses(
            corridor=self.toy,
            turns=turns,
            rows=self.rows,
            payloads=self.payloads,
            clock=self.clock,
            count=self.counted.append,
        )
        background = SubmittingResponses(
            jobs=self.jobs,
            rows=self.rows,
            payloads=self.payloads,
            accepting=_Accepting(),
            clock=self.clock,
            ids=lambda: f"{next(self._ids):032x}",
        )
        responses = Responses(
            stored=self.stored, jobs=self.jobs, keyed_answers=self.answers, slots=self.slots, clock=self.clock
        )
        made = edge(self.toy, Limits(), deferred=[lambda api, access: add_responses(api, access, responses)])
        assert isinstance(made.identity, Keyring)
        made.identity.replace(self.ring)
        return replace(
            made,
            ids=lambda: f"{next(self._ids):016x}",
            counting=TurnCounts(corridor=self.toy, turns=turns),
            responses=StoredCorridor(
                kept=Once(kept, self.answers),
                background=background,
                turns=turns,
                stored=self.stored,
                slots=self.slots,
                stall_s=1.0,
            ),
        )

    async def begin(self, name: str) -> tuple[Job, AttemptReply]:
        """Claim a response's job and begin its attempt."""
        job = self.jobs.claimed(name)
        return job, await self.attempts.begin(job)

    async def end(self, job: Job, body: bytes, state: JobState = JobState.SUCCEEDED, status: int = 200) -> None:
        """Store an attempt's answer, as a runner does."""
        place = object_id("job", job.name, f"answer-{job.epoch}")
        await self.payloads.put(job.tenant, place, body)
        self.jobs.put(replace(job, state=state, output=Extent(object=place, size=len(body)), status=status))
