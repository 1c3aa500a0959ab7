"""Opens the one lease of a request: deadline, the plan's bounds, the reservation (A7, B2, B3).

deadline = min(what the client asked for, what the plan allows, what the version's SLO tier gives)

A caller counts from its arrival; plan and tier count from when the body was here, for a slow upload is not ours.

Who names no deadline of its own, and is not batch work, waits for the engine no longer than its tier's queue timeout.

An explicit wish beyond the plan's output bound is refused, so that nobody gets a shorter answer than asked for without
knowing; a silent request is bounded by the plan. Whether prompt and output fit the model's context is preprocessing's
question, and which worker takes it is routing's: neither is asked here.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from penstock.domain.clock import Clock
from penstock.domain.errors import DeadlineInQueue, InvalidField
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.models.model import Tier
from penstock.domain.outcome import Stage
from penstock.domain.serving.request import Api, InferenceRequest
from penstock.domain.serving.slo import SloTier
from penstock.domain.tenancy.lease import Lease, Settlement
from penstock.domain.tenancy.ledger import Opening
from penstock.domain.tenancy.tenant import OverQuota, Priority
from penstock.gateway.admission import fit
from penstock.gateway.admission.degrade import OUTPUT_FIELD
from penstock.gateway.admission.reservations import Claim, Reservation, Reservations
from penstock.gateway.calls.call import Call


class AdmissionController:
    """Implements the pipeline's ``Admission``."""

    def __init__(
        self,
        *,
        reservations: Reservations,
        tiers: Mapping[Tier, SloTier],
        clock: Clock,
        in_flight: Callable[[str, int], None],
    ) -> None:
        self._reservations = reservations
        self._tiers = tiers
        self._clock = clock
        self._in_flight = in_flight
        self._running: dict[Lease, Call] = {}

    async def admit(self, call: Call) -> Lease:
        """Open the request's lease.

        Raises ``DeadlineInQueue``, ``InvalidField``, ``ExceedsEngine``, ``OverLimit``, ``OverBudget``, or
        ``StoreUnavailable`` where money would be spent unseen.
        """
        version = call.version
        assert version is not None  # noqa: S101  the pipeline resolves first
        plan = call.principal.plan
        now = self._clock.monotonic()
        ours_at = call.received_at + self._deadline_s(plan.deadline_s, version.tier)
        asked_at = call.request.arrived_at + (call.request.deadline_s or math.inf)
        call.own_deadline, call.pace = asked_at < ours_at, self._tiers[version.tier].pace
        deadline_at = min(asked_at, ours_at)
        if deadline_at <= now:
            raise DeadlineInQueue("the deadline passed before the request could start")
        call.request = bounded(call.request, plan.max_output_tokens)
        fit.check(call.cost, version)
        lease = call.lease = Lease(opened_at=now, deadline_at=deadline_at)
        lease.start_by = self._start_by(call, version.tier)
        reservation = await self._reservations.open(self._claim(call, version), lease)
        lease.on_end = self._ending(call, lease, reservation)
        lease.on_release = partial(self._reservations.release, reservation)
        lease.on_settle = partial(self._settle, call, reservation)
        return lease

    def move(self, call: Call) -> None:
        """Let the open lease be one for the call's present version, or raise ``StoreUnavailable``.

        What is reserved stays reserved: it was for a version that costs no less.
        """
        assert call.version is not None  # noqa: S101  the pipeline resolves first
        self._reservations.move(self._opening(call, call.version))

    @property
    def running(self) -> Mapping[Lease, Call]:
        """The open leases and whose they are; for looking, not for changing."""
        return self._running

    def _deadline_s(self, plan_s: float, tier: Tier) -> float:
        return min(s for s in (plan_s, self._tiers[tier].deadline_s) if s > 0)

    def _start_by(self, call: Call, tier: Tier) -> float:
        """Return until when it may wait for the engine; 0 where its deadline alone bounds that."""
        timeout_s = self._tiers[tier].queue_timeout_s
        waits = call.own_deadline or call.principal.plan.priority is Priority.BATCH
        return 0.0 if waits or not timeout_s else call.received_at + timeout_s

    def _claim(self, call: Call, version: VersionEntry) -> Claim:
        who = call.principal
        return Claim(
            opening=self._opening(call, version),
            scopes=who.scopes,
            cost=call.cost,
            stream=call.request.stream,
            yields=who.plan.over_quota is OverQuota.YIELD,
        )

    def _opening(self, call: Call, version: VersionEntry) -> Opening:
        request, who = call.request, call.principal
        return Opening(
            request=request.id,
            tenant=who.tenant,
            key=who.key,
            version=version.id,
            digest=version.digest,
            api=request.api,
            priority=who.plan.priority,
            prompt_tokens=call.cost.prompt_tokens,
            price=version.price,
            opened_at=self._clock.now(),
            degraded=",".join(call.degraded),
            output_tokens=call.cost.output_tokens,
        )

    def _ending(self, call: Call, lease: Lease, reservation: Reservation) -> Callable[[], None]:
        model = reservation.opening.version.partition("@")[0]
        self._in_flight(model, 1)
        self._running[lease] = call

        def end() -> None:
            self._in_flight(model, -1)
            del self._running[lease]

        return end

    def _settle(self, call: Call, reservation: Reservation, end: Settlement) -> None:
        self._reservations.close(reservation, end, gpu_s=gpu_s(call, end), continued=len(call.continued_at))


def gpu_s(call: Call, end: Settlement) -> float:
    """Return the engine's seconds of a request, as its worker counted them: over all requests the time it had work.

    Where nobody has told, it is a guess: its time in the engine, shared with those that it was sent beside. An answer
    in one piece that was broken off has no stages: then all counts from dispatch to the end, less what is known of the
    wait.
    """
    if call.used is not None and call.used.engine_us is not None:
        return min(call.used.engine_us / 1e6, end.held_s)
    route, adapter, queue, *engine = (
        call.timings.seconds.get(stage, 0.0)
        for stage in (Stage.ROUTE, Stage.ADAPTER, Stage.QUEUE, Stage.COMPUTE, Stage.PREFILL, Stage.DECODE)
    )
    in_engine_s, beside = sum(engine), call.worker.load.running if call.worker is not None else 1
    if not in_engine_s and end.usage.total_tokens:
        in_engine_s = max(0.0, end.held_s - route - adapter - queue)
    return in_engine_s / max(1, beside)


def bounded(request: InferenceRequest, most_tokens: int) -> InferenceRequest:
    """Return the request within the plan's bound (0 is none), or raise ``InvalidField`` where it asks for more."""
    if not most_tokens or not request.api.generates:
        return request
    field, cost = OUTPUT_FIELD[request.api], request.cost
    if cost.names_no_output:
        each = max(1, most_tokens // cost.sequences)
        return replace(request, body={**request.body, field: each}, cost=cost.with_output(each))
    if cost.output_tokens > most_tokens:
        raise InvalidField(
            f"this plan allows {most_tokens} output tokens a request, all choices together", param=_sent(request)
        )
    return request


def _sent(request: InferenceRequest) -> str:
    """Return the field in which the caller named its output: the older one where only that is there."""
    field, older = OUTPUT_FIELD[request.api], "max_tokens"
    is_older = request.body.get(field) is None and request.body.get(older) is not None
    return older if is_older and request.api is Api.CHAT else field
