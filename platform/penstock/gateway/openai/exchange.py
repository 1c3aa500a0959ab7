"""One request's exchange, independent of the wire: identity, body, pipeline, errors.

The credential is checked before the body is read. Subclasses read bodies and write errors in their wire's form.
"""

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress

from penstock.domain.errors import (
    ClientGone,
    Draining,
    EngineRefused,
    InvalidField,
    OverBudget,
    OverLimit,
    PenstockError,
)
from penstock.domain.ids import RequestId, TenantId
from penstock.domain.outcome import TENANT_QUEUE, Stage
from penstock.domain.serving.request import Api, InferenceRequest, PackedTensors
from penstock.domain.tenancy import service_tiers
from penstock.domain.tenancy.credentials import Claim
from penstock.domain.tenancy.tenant import Principal, TierName
from penstock.gateway.calls.call import Call, Progress, Timings, nothing
from penstock.gateway.calls.demand import Demand
from penstock.gateway.calls.relay import Reply
from penstock.gateway.openai import betas, head
from penstock.gateway.openai.blame import blamed
from penstock.gateway.openai.bounds import UNBOUNDED
from penstock.gateway.openai.parse import BACKGROUND, GEO, Parsed
from penstock.gateway.openai.services import Serve, Services
from penstock.gateway.records.making import Early
from penstock.intake.held import HeldBytes
from penstock.intake.types import Headers

STRANGER = TenantId("")
"""The turn of requests without a valid key."""
ANYWHERE = "global"
"""Anthropic's value for no preferred region."""


class RequestExchange(ABC):
    """``api`` is derived from the path, if that determines it."""

    def __init__(self, edge: Services, api: Api, headers: list[tuple[bytes, bytes]]) -> None:
        self._edge, self._api = edge, api
        self._timings = Timings(edge.clock.monotonic, edge.clock.monotonic())
        self._head = headers
        self._headers = dict(self._head)
        self._request_id = RequestId(head.request_id(self._headers, edge.ids()))
        self._progress: Progress | None = None
        self._bounds = UNBOUNDED
        self._held: HeldBytes | None = None
        self._tensors: PackedTensors | None = None
        self._who: Principal | None = None
        self._session = ""
        self._ignored: tuple[str, ...] = ()
        self._is_passed = self._is_refused = self._has_turn = False

    # -- the wire's part -----------------------------------------------------------------

    @property
    @abstractmethod
    def _reply(self) -> Reply: ...

    @abstractmethod
    async def _read(self, who: Principal) -> tuple[Parsed, str]: ...

    @abstractmethod
    def _say(self, error: PenstockError) -> None:
        """Send the error with a status before the first byte, in band after it."""

    def _known(self, who: Principal) -> None:  # noqa: B027  most wires have nothing to do then
        ...

    # -- the way ---------------------------------------------------------------------------

    async def run(self, serve: Serve) -> None:
        try:
            if len(self._headers) < len(self._head):
                head.check_single(self._head)
            principal = self._who = self._identified()
            self._recognise(principal)
            if self._edge.turns is not None:
                self._has_turn = True
                await self._edge.turns.take(principal.tenant)
            self._session = head.session(self._headers)
            parsed, digest = await self._read(principal)
            request = self._request(parsed, digest)
            principal = self._in_tier(principal, parsed)
            admitted = self._held.release if self._held is not None else nothing
            call = Call(request=request, principal=principal, timings=self._timings, on_admitted=admitted)
            self._progress = Progress(call)
            self._timings.mark(Stage.EDGE)
            await serve(self._progress, self._reply)
        except PenstockError as error:
            await self._until_paced(error)
            self._refuse(error)
        except asyncio.CancelledError:
            self._refuse(Draining("this gateway was shut down before the answer was complete", retry_after_s=1.0))
        except Exception as error:  # noqa: BLE001  a bug of ours must not become a broken connection
            self._edge.observer.crashed(error, self._request_id)
            self._refuse(PenstockError())
        finally:
            self._give_back()

    def _recognise(self, who: Principal) -> None:
        self._bounds = self._edge.bounds(who)
        self._known(who)
        self._timings.mark(Stage.AUTH)

    def _blamed(self, error: PenstockError) -> PenstockError:
        request = None if self._progress is None else self._progress.call.request
        if request is None or request.api is Api.INFER or not isinstance(error, EngineRefused):
            return error
        return blamed(error, request.api, request.body)

    def _in_tier(self, who: Principal, parsed: Parsed) -> Principal:
        if not parsed.service_tier and who.plan.auto_tier is TierName.DEFAULT:
            return who
        return service_tiers.served(who, parsed.service_tier)

    def _identified(self) -> Principal:
        return self._edge.identity.authenticate(head.credential(self._headers))

    def _give_back(self) -> None:
        if self._held is not None:
            self._held.release()
        if self._has_turn and self._who is not None and self._edge.turns is not None:
            self._edge.turns.leave(self._who.tenant)
        if self._is_passed and self._who is not None:
            now = self._edge.clock.monotonic()
            self._edge.looks.give_pass(self._who.tenant, now, was_of_use=not self._is_refused)

    async def _refuse_early(self, who: Principal, model: str = "", *, size: int = 0) -> None:
        """A caller over a limit may still get a recorded answer, which is free. A worker's remembered refusal of
        requests of this size (0 while unknown) counts as a limit.
        """
        try:
            await self._edge.refuse_early(who, model, Demand(who.tenant, size, self._deadline_s()))
        except PenstockError:
            key = head.idempotency_key(self._headers)
            if self._is_passed:
                return
            if not key or not await self._edge.is_recorded(who, key):
                raise
            if not self._edge.looks.take_pass(who.tenant, self._edge.clock.monotonic()):
                raise
            self._is_passed = True

    def _request(self, parsed: Parsed, digest: str) -> InferenceRequest:
        headers = self._headers
        self._ignored = parsed.told
        if self._api is Api.MESSAGES:
            self._ignored += head.later_version(headers)
            if betas.HEADER_BYTES in headers:
                self._ignored += betas.told(self._head)
        given = head.traceparent(headers)
        return InferenceRequest(
            id=self._request_id,
            api=self._api,
            model=parsed.model,
            body=parsed.body,
            stream=parsed.stream,
            include_usage=parsed.include_usage,
            usage_each=parsed.usage_each,
            cost=parsed.cost,
            arrived_at=self._timings.started_at,
            deadline_s=self._deadline_s(),
            traceparent=self._edge.trace(given),
            caller_trace=given,
            idempotency_key=head.idempotency_key(headers),
            digest=digest,
            session=self._session,
            tensors=self._tensors,
            price_cap=head.price_cap(headers),
            kept_rule=head.kept_rule(headers),
            cache_key=parsed.cache_key,
            geo=check_region(parsed.geo, self._edge.region) if parsed.geo else "",
        )

    def _without_effect(self) -> tuple[str, ...]:
        prepared = None if self._progress is None else self._progress.call.prepared
        return self._ignored if prepared is None else self._ignored + prepared.told

    def _deadline_s(self) -> float:
        return head.deadline_s(self._headers)

    def _told(self) -> Headers:
        stages = [f"{stage};dur={seconds * 1e3:.3f}" for stage, seconds in self._timings.seconds.items()]
        told = [(b"server-timing", ", ".join(stages).encode())] if stages else []
        if self._progress is not None and (version := self._progress.call.version) is not None:
            told.append((b"x-penstock-version", version.id.encode()))
            if (ruled := self._progress.call.ruled) is not None:
                told.append((b"x-penstock-auto", ruled.rule.encode()))
        return told

    async def _until_paced(self, error: PenstockError) -> None:
        """Delay a refusal if its tenant has many; release the body's memory before. All refusals end in turns."""
        who, turns = self._who, self._edge.turns
        if turns is None or self._reply.started:
            return
        if self._held is not None:
            self._held.release()
        with suppress(asyncio.CancelledError):  # a gateway that ends says what it has to say at once
            if who is not None and _is_theirs(error):
                await turns.pace(who.tenant)
            await turns.end(who.tenant if who is not None else STRANGER)

    def _refuse(self, error: PenstockError) -> None:
        reply, self._is_refused = self._reply, True
        error = self._blamed(error)
        if self._who is not None and _is_theirs(error):
            self._edge.looks.refused(self._who.key, self._edge.clock.monotonic())
        if reply.gone or isinstance(error, ClientGone):
            self._keep(error, self._claim())
            reply.finish()
            return
        claim = self._claim()
        charged = self._api if self._is_unseen and not self._is_later else None
        self._edge.observer.refused(error, self._request_id, claim, api=charged)
        self._keep(error, claim)
        self._say(error)

    @property
    def _is_later(self) -> bool:
        """True for a job: its attempts count, not its submit."""
        return self._progress is not None and self._progress.call.request.body.get(BACKGROUND) is True

    @property
    def _is_unseen(self) -> bool:
        return self._progress is None or self._progress.answer is None

    def _claim(self) -> Claim:
        """Tenant and key, or those named by a refused credential."""
        if self._who is not None:
            return Claim(self._who.tenant, self._who.key)
        return head.claim(self._headers, self._edge.identity.claimed)

    def _keep(self, error: PenstockError, claim: Claim) -> None:
        if self._is_unseen:
            timings = self._timings
            self._edge.keep_early(error, Early(self._request_id, claim, self._api, timings.started_at, timings.seconds))


def check_region(asked: str, ours: str) -> str:
    """Raises ``InvalidField`` if the request asks for another region."""
    if asked not in (ours, ANYWHERE):
        raise InvalidField(
            f"{GEO} must be {ours} or {ANYWHERE} at this gateway; for another region ask its gateway",
            param=GEO,
        )
    return ours


def _is_theirs(error: PenstockError) -> bool:
    """The caller's limits, or its tenant's own queue: its next request would be refused too."""
    return isinstance(error, OverLimit | OverBudget) or error.reason == TENANT_QUEUE
