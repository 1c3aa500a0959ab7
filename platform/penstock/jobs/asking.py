"""One attempt at a job: its request is read, asked as its key's tenant, and its answer taken.

The request passes the gateway's pipeline like a caller's; nothing here knows limits, workers or bills.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from penstock.domain.clock import Clock
from penstock.domain.errors import (
    BudgetReached,
    ClientGone,
    DeadlineExceeded,
    EngineError,
    EngineRefused,
    Forbidden,
    LimitReached,
    PenstockError,
    StreamBroken,
)
from penstock.domain.ids import KeyId, RequestId
from penstock.domain.jobs.job import Job, JobKind
from penstock.domain.jobs.payload import PayloadStore
from penstock.domain.outcome import Outcome
from penstock.domain.serving.request import Api, InferenceRequest
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.calls.call import Answer
from penstock.gateway.calls.inside import Ask, Asked
from penstock.gateway.deferred import response_bodies
from penstock.gateway.openai.bounds import BodyBounds
from penstock.gateway.openai.parse import STORE
from penstock.gateway.openai.reading import BodyReader
from penstock.gateway.streaming import stages
from penstock.gateway.streaming.continuation import is_plain
from penstock.jobs import principal, whole_answer
from penstock.jobs.held import Held
from penstock.jobs.replies import AnswerReply, Answers, Stoppable, WholeAnswers


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An attempt's end: a body, or the error in place of one."""

    body: bytes = b""
    error: PenstockError | None = None
    prompt_tokens: int = 0
    output_tokens: int = 0
    is_published: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    ask: Ask
    payloads: PayloadStore
    reader: BodyReader
    bounds: Callable[[Principal], BodyBounds]
    holder: Callable[[KeyId], Principal | None]
    """Returns the key's principal; None if it was revoked."""
    clock: Clock
    responses: Answers = field(default_factory=WholeAnswers)

    async def answer(self, held: Held) -> Answered:
        """Return the attempt's end; whatever refuses the request, it is no error of the runner."""
        job = held.job
        try:
            who = self._principal(job)
            request = await self._request(job, who, is_response=job.kind is JobKind.RESPONSE)
            answers = self.responses if job.kind is JobKind.RESPONSE else WholeAnswers()
            reply = await answers.begin(job)
        except PenstockError as error:
            return Answered(error=error)
        who = replace(who, answers_only=not reply.is_published)
        try:
            answered = await self._asked(held, request, who, reply)
        except PenstockError as error:  # the store of its events stayed away
            answered = Answered(error=error)
        return replace(answered, is_published=reply.is_published)

    async def _asked(self, held: Held, request: InferenceRequest, who: Principal, reply: AnswerReply) -> Answered:
        try:
            held.run_with(Stoppable(reply))
            asked = await self.ask(request, who, reply=held.reply)
        finally:
            body = await reply.close()
        return _answered(asked, _whole(held.job, request, asked, body, self.clock.now()))

    def _principal(self, job: Job) -> Principal:
        holder = self.holder(job.key)
        if holder is None:
            raise Forbidden("the API key that submitted this job was revoked")
        return principal.of_job(holder, job.model, job.version)

    async def _request(self, job: Job, who: Principal, *, is_response: bool) -> InferenceRequest:
        """Return the request; it is streamed inside if another worker could continue the stream."""
        raw = await self.payloads.get(job.tenant, job.input.object, job.input.at, job.input.size)
        parsed, digest = await self.reader.read(job.tenant, job.api, raw, self.bounds(who))
        request = InferenceRequest(
            id=request_id(job),
            api=job.api,
            model=job.version,
            body=parsed.body,
            stream=False,
            include_usage=False,
            cost=parsed.cost,
            arrived_at=self.clock.monotonic(),
            deadline_s=max(0.001, job.deadline_at - self.clock.now()),
            digest=digest,
            cache_key=parsed.cache_key,
        )
        if not is_response and not is_plain(request):
            return request
        return replace(request, body={**request.body, "stream": True}, stream=True, include_usage=True)


def request_id(job: Job) -> RequestId:
    """Return the request id of a job's present attempt: another runner can tell it, too."""
    return RequestId(f"{job.name}-{job.epoch}")


def _whole(job: Job, request: InferenceRequest, asked: Asked, body: bytes, now: float) -> bytes:
    """Return the body as a caller that waits gets it, without a stream; empty for an answer that has no proper end."""
    if job.kind is JobKind.RESPONSE or not asked.answer.outcome.is_answer:
        return body
    if job.api is Api.RESPONSES and body:
        own = {STORE: False, **response_bodies.asked_of(request.body, *response_bodies.ALIKE)}
        return response_bodies.encoded(response_bodies.shown(response_bodies.decoded(body), own, now))
    if not request.stream:
        return body
    version = asked.call.version
    try:
        return whole_answer.of_events(job.api, body, stages.field(asked.call, version.id if version else ""))
    except ValueError:
        return b""


def _answered(asked: Asked, body: bytes) -> Answered:
    usage = asked.answer.usage
    error = asked.error or _ended_by(asked.answer)
    if error is None and not body:
        error = EngineError("the engine's answer could not be read")
    return Answered(
        body=body if error is None else b"",
        error=error,
        prompt_tokens=usage.prompt_tokens,
        output_tokens=usage.output_tokens,
    )


def _ended_by(answer: Answer) -> PenstockError | None:
    """Return the error of an answer that had begun; it is no longer raised then."""
    if answer.outcome.is_answer:
        return None
    kind = _OF_OUTCOMES.get(answer.outcome, EngineError)
    refusal = answer.refusal
    return kind() if refusal is None else kind(refusal.says or None, retry_after_s=refusal.retry_after_s)


_OF_OUTCOMES: dict[Outcome, type[PenstockError]] = {
    Outcome.BAD_REQUEST: EngineRefused,
    Outcome.BROKEN_STREAM: StreamBroken,
    Outcome.CANCELLED: ClientGone,
    Outcome.DEADLINE: DeadlineExceeded,
    Outcome.OWN_DEADLINE: DeadlineExceeded,
    Outcome.OVER_BUDGET: BudgetReached,
    Outcome.OVER_LIMIT: LimitReached,
}
