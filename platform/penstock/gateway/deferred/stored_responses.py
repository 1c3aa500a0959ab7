"""Stored responses as every gateway reads them: row, job and sealed bytes, of the caller's own tenant."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.domain.clock import Clock
from penstock.domain.ids import TenantId
from penstock.domain.jobs.ids import JobName, ObjectId
from penstock.domain.jobs.job import Job, JobState
from penstock.domain.jobs.payload import PayloadStore
from penstock.domain.jobs.stored_response import Begun, EventPiece, ResponseId, ResponseStatus, StoredResponse
from penstock.gateway.deferred import response_bodies

_STATUS = {
    JobState.QUEUED: ResponseStatus.QUEUED,
    JobState.RUNNING: ResponseStatus.IN_PROGRESS,
    JobState.SUCCEEDED: ResponseStatus.COMPLETED,
    JobState.FAILED: ResponseStatus.FAILED,
    JobState.CANCELLED: ResponseStatus.CANCELLED,
}


class ResponseStore(Protocol):
    """Rows of stored responses; calls may raise ``StoreUnavailable``."""

    async def add(self, response: StoredResponse, most_bytes: int = 0) -> None:
        """Raises ``NoFileRoom`` or ``ExceedsLimit`` if its tenant would keep more than ``most_bytes``; 0: no bound."""
        ...

    async def find(self, tenant: TenantId, response: str) -> StoredResponse | None:
        """Return the response unless it has expired."""
        ...

    async def delete(self, tenant: TenantId, response: ResponseId) -> Sequence[ObjectId] | None:
        """Return the objects that the rows named; None if there was none."""
        ...

    async def expire(self, tenant: TenantId, response: ResponseId, at: float) -> None:
        """Let it expire at this time, unless it does earlier."""
        ...

    async def events(self, response: ResponseId, after: int, *, newest_only: bool) -> Sequence[EventPiece]:
        """Beyond a number; ``newest_only``: of the newest attempt that has any."""
        ...

    async def begun(self, response: ResponseId) -> Begun:
        """Return the end of the kept events."""
        ...


class JobReads(Protocol):
    async def find(self, tenant: TenantId, name: JobName, now: float) -> Job | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """With its job if it runs in the background."""

    stored: StoredResponse
    job: Job | None = None

    @property
    def is_over(self) -> bool:
        return self.job is None or not self.job.state.is_open


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponses:
    rows: ResponseStore
    jobs: JobReads
    payloads: PayloadStore
    clock: Clock

    async def find(self, tenant: TenantId, response: str) -> Found | None:
        stored = await self.rows.find(tenant, response)
        return None if stored is None else await self._with_job(stored)

    async def again(self, found: Found) -> Found | None:
        stored = await self.rows.find(found.stored.tenant, found.stored.id)
        return None if stored is None else await self._with_job(stored)

    async def _with_job(self, stored: StoredResponse) -> Found | None:
        if not stored.is_background:
            return Found(stored=stored)
        job = await self.jobs.find(stored.tenant, JobName(stored.id), self.clock.now())
        return None if job is None else Found(stored=stored, job=job)

    async def body(self, found: Found) -> bytes:
        """Return the response object as it is now."""
        stored, job = found.stored, found.job
        if job is None:
            return await self.payloads.get(stored.tenant, stored.object, stored.body_at, stored.body_bytes)
        answer = await self._answer(job)
        if job.state is JobState.SUCCEEDED:
            return answer
        begun = await self.payloads.get(stored.tenant, stored.object, 0, stored.begin_bytes)
        is_failed = job.state is JobState.FAILED
        error = response_bodies.error_of(job.status, job.error, answer) if is_failed else None
        return response_bodies.encoded(response_bodies.with_status(begun, _STATUS[job.state], error))

    async def beginning(self, found: Found) -> response_bodies.Object:
        stored = found.stored
        begun = await self.payloads.get(stored.tenant, stored.object, 0, stored.begin_bytes)
        return response_bodies.decoded(begun)

    async def context(self, found: Found) -> bytes:
        """The input's items as JSON, turns before it included."""
        stored = found.stored
        return await self.payloads.get(stored.tenant, stored.object, stored.input_at, stored.input_bytes)

    async def _answer(self, job: Job) -> bytes:
        place = job.output
        return await self.payloads.get(job.tenant, place.object, place.at, place.size) if place.size else b""
