"""Stored responses: look at one, follow its events, list its input, cancel it, delete it (OpenAI's Responses API)."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

from penstock.domain.clock import Clock
from penstock.domain.errors import InvalidField, UnknownObject
from penstock.domain.ids import TenantId
from penstock.domain.jobs.ids import JobName
from penstock.domain.jobs.job import Job
from penstock.domain.serving.idempotency import RecordKey
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.tenant import FETCHED_S, Principal
from penstock.gateway.deferred import shapes, turns
from penstock.gateway.deferred.access import Access
from penstock.gateway.deferred.response_stream import HEADERS, NOTHING_SEEN, ResponseStream, StreamSlots
from penstock.gateway.deferred.stored_responses import Found, StoredResponses
from penstock.gateway.openai import documented
from penstock.intake.types import Receive, Scope, Send

ONE = f"{Api.RESPONSES}/{{response}}"
CANCELS_WITHIN_S = 2.0
"""Seconds that a cancel waits for the running request's end, which comes within one."""
LOOK_S = 0.05
_ID = re.compile(r"resp_[A-Za-z0-9_.-]{8,200}")
MOST_DIGITS = 9
_SWITCH = {"": False, "false": False, "true": True}
IGNORED = ("include", "include[]", "include_obfuscation")
"""Query parameters without effect: an answer has what its request included, and nothing is padded."""


class Jobs(Protocol):
    async def cancel(self, tenant: TenantId, name: JobName, now: float) -> Job | None:
        """A running job's runner is asked to stop; one that has ended stays as it is."""
        ...

    async def delete(self, tenant: TenantId, name: JobName, now: float) -> Job | None:
        """Raises ``Conflict`` while the job is open."""
        ...


class KeyedAnswers(Protocol):
    async def drop(self, key: RecordKey) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Responses:
    stored: StoredResponses
    jobs: Jobs
    keyed_answers: KeyedAnswers
    slots: StreamSlots
    clock: Clock

    async def find(self, who: Principal, response: str) -> Found:
        found = await self.stored.find(who.tenant, response) if _ID.fullmatch(response) else None
        if found is None:
            raise UnknownObject
        return found

    async def fetched(self, who: Principal, found: Found) -> None:
        """Delete an ended response of a tenant without retention, a minute after its first look."""
        if who.plan.zero_retention and found.is_over:
            await self.stored.rows.expire(who.tenant, found.stored.id, self.clock.now() + FETCHED_S)

    async def cancel(self, found: Found) -> Found:
        if found.job is None:
            raise InvalidField("only a background response can be cancelled", param="response_id")
        if found.is_over:
            return found
        await self.jobs.cancel(found.stored.tenant, JobName(found.stored.id), self.clock.now())
        return await self._ended(found)

    async def _ended(self, found: Found) -> Found:
        until = self.clock.monotonic() + CANCELS_WITHIN_S
        while not (found := await self._now(found)).is_over and self.clock.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)
        return found

    async def _now(self, found: Found) -> Found:
        now = await self.stored.again(found)
        if now is None:
            raise UnknownObject
        return now

    async def delete(self, found: Found) -> None:
        """With its events and their bytes; one that runs is cancelled before."""
        if not found.is_over:
            found = await self.cancel(found)
        stored, job = found.stored, found.job
        if stored.answer_key:
            await self.keyed_answers.drop(RecordKey(stored.tenant, stored.answer_key))
        objects = list(await self.stored.rows.delete(stored.tenant, stored.id) or ())
        if job is not None and job.output.object:
            objects.append(job.output.object)
        for name in objects:
            await self.stored.payloads.delete(name)
        if job is not None and not job.state.is_open:
            await self.jobs.delete(stored.tenant, JobName(stored.id), self.clock.now())


def add_responses(api: FastAPI, access: Access, responses: Responses) -> None:
    @api.get(ONE)
    async def one(request: Request, response: str) -> Response:
        who = access.caller(request)
        found, query = await responses.find(who, response), _known(request)
        if not _is_streamed(query):
            body = await responses.stored.body(found)
            await responses.fetched(who, found)
            return Response(body, headers=_ignored(query), media_type="application/json")
        if not found.stored.keeps_events:
            says = "events are kept of background responses that were made with stream: leave it out"
            raise InvalidField(says, param="stream")
        after, begun = _after(query), await responses.stored.beginning(found)
        if after > (newest := (await responses.stored.rows.begun(found.stored.id)).number):
            raise InvalidField(f"starting_after is beyond the newest event, {newest}", param="starting_after")
        events = ResponseStream(stored=responses.stored).events(found, begun, after)
        return _Followed(events, responses.slots.following(who))

    @api.get(f"{ONE}/input_items")
    async def input_items(request: Request, response: str) -> Response:
        found = await responses.find(access.caller(request), response)
        items, query = turns.listed(await responses.stored.context(found)), _known(request)
        page, has_more = turns.paged(items, turns.asked(query))
        listed = shapes.listed(page, has_more=has_more)
        listed.headers.update(_ignored(query))
        return listed

    @api.post(f"{ONE}/cancel")
    async def cancel(request: Request, response: str) -> Response:
        ended = await responses.cancel(await responses.find(access.caller(request), response))
        return Response(await responses.stored.body(ended), media_type="application/json")

    @api.delete(ONE)
    async def delete(request: Request, response: str) -> Response:
        await responses.delete(await responses.find(access.caller(request), response))
        return shapes.answer({"id": response, "object": "response", "deleted": True})


class _Followed(StreamingResponse):
    """Holds a stream's slot while it is sent, however that ends."""

    def __init__(self, events: AsyncIterator[bytes], slot: AbstractAsyncContextManager[None]) -> None:
        super().__init__(events, headers={name.decode(): value.decode() for name, value in HEADERS})
        self._slot = slot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._slot:
            await super().__call__(scope, receive, send)


def _known(request: Request) -> Mapping[str, str]:
    """Return the query; raises ``InvalidField`` for a value of ``include`` that a create would refuse, too."""
    query = request.query_params
    if given := [*query.getlist("include"), *query.getlist("include[]")]:
        documented.check(Api.RESPONSES, {"include": given})
    return query


def _is_streamed(query: Mapping[str, str]) -> bool:
    is_streamed = _SWITCH.get(query.get("stream", "").lower())
    if is_streamed is None:
        raise InvalidField("stream is true or false", param="stream")
    if "starting_after" in query and not is_streamed:
        raise InvalidField("starting_after is a number in a stream: send stream=true", param="starting_after")
    return is_streamed


def _after(query: Mapping[str, str]) -> int:
    given = query.get("starting_after")
    if given is None:
        return NOTHING_SEEN
    if not (given.isascii() and given.isdigit() and len(given) <= MOST_DIGITS):
        raise InvalidField("starting_after is the sequence_number of an event", param="starting_after")
    return int(given)


def _ignored(query: Mapping[str, str]) -> dict[str, str]:
    found = [name for name in IGNORED if name in query]
    return {"x-penstock-ignored": ", ".join(found)} if found else {}
