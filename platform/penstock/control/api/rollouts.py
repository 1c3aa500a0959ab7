"""Operators: candidates that take an alias over."""

from secrets import token_hex
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from penstock.control.api.bodies import NewRollout, RolloutMove
from penstock.control.api.deps import Control
from penstock.control.api.models import check_tenants
from penstock.control.api.wire import answer, read
from penstock.control.rollout.rollouts import Consent, Move
from penstock.domain.errors import InvalidField, UnknownRoute
from penstock.domain.ids import Alias, TenantId, VersionId
from penstock.domain.rollout.rollout import Rollout, Stored

MOST_HOURS = 168.0
_ID_BYTES = 5


class RolloutsShown:
    """Start, look, steer."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._rollouts = control.rollouts

    def router(self) -> APIRouter:
        """Return its routes."""
        router = APIRouter(tags=["rollouts"])
        router.add_api_route("/rollouts", self.start, methods=["POST"], status_code=201)
        router.add_api_route("/rollouts", self.listed, methods=["GET"])
        router.add_api_route("/rollout-plans", self.plan, methods=["POST"])
        router.add_api_route("/rollouts/{rollout}", self.one, methods=["GET"])
        router.add_api_route("/rollouts/{rollout}/{move}", self.move, methods=["POST"])
        return router

    async def start(self, request: Request) -> Response:
        """Begin one beside the version that has all of the alias now."""
        act = await self._control.act(request, "rollout.start")
        body = await read(request, NewRollout)
        await self._check_tenants(body)
        consent = Consent(reason=body.reason, dearer=body.accept_dearer, spent=body.override_budget)
        stored = await self._rollouts.start(_asked(body), consent, act)
        self._control.runtime.wake()
        return answer({**self._shown(stored), "history": await self._rollouts.store.history(stored.rollout.id)}, 201)

    async def plan(self, request: Request, hours: float = 1.0) -> Response:
        """Say what a rollout would need and see, with the traffic of the last hours; nothing is started."""
        await self._control.operator(request)
        if not 0.0 < hours <= MOST_HOURS:
            raise InvalidField(f"the traffic of above 0 hours, and of {MOST_HOURS:g} at most", param="hours")
        body = await read(request, NewRollout)
        return answer(await self._rollouts.plan(_asked(body), self._control.clock.now(), hours))

    async def listed(self, request: Request) -> Response:
        """List the newest, newest first; ``?alias=`` those of one alias."""
        await self._control.overseer(request)
        alias = request.query_params.get("alias")
        found = await self._rollouts.listed(Alias(alias) if alias else None)
        return answer({"rollouts": [self._shown(one) for one in found]})

    async def one(self, request: Request, rollout: str) -> Response:
        """Show one with what the judge says of it now, and every change of it."""
        await self._control.overseer(request)
        stored = await self._rollouts.one(rollout)
        live = not stored.rollout.state.is_over
        judgement = self._control.comparisons.judgement(stored.rollout) if live else None
        history = await self._rollouts.store.history(rollout)
        return answer({**self._shown(stored), "judgement": judgement, "history": history})

    async def move(self, request: Request, rollout: str, move: str) -> Response:
        """Hold, resume, promote or abort one."""
        act = await self._control.act(request, f"rollout.{move}")
        try:
            word = Move(move)
        except ValueError as error:
            raise UnknownRoute(f"a rollout knows {', '.join(Move)}") from error
        body = await read(request, RolloutMove)
        consent = Consent(reason=body.reason, spent=body.override_budget, stage=body.stage)
        stored = await self._rollouts.move(rollout, word, consent, act)
        self._control.runtime.wake()
        return answer(self._shown(stored))

    async def _check_tenants(self, body: NewRollout) -> None:
        """Raise ``InvalidField`` for a tenant that staying out, or going first, would do nothing for."""
        named = {"blast.out": body.blast.out, "blast.first": body.blast.first}
        if not any(named.values()):
            return
        ring, now = await self._control.ring(), self._control.clock.now()
        for param, tenants in named.items():
            check_tenants(body.alias, map(TenantId, tenants), ring, now, param=param)

    @staticmethod
    def _shown(stored: Stored) -> dict[str, Any]:
        fields: dict[str, Any] = msgspec.to_builtins(stored.rollout)
        return {**fields, "weight": stored.rollout.weight, "number": stored.number}


def _asked(body: NewRollout) -> Rollout:
    return Rollout(
        id=f"ro-{token_hex(_ID_BYTES)}",
        alias=body.alias,
        incumbent=VersionId(""),
        candidate=body.candidate,
        kind=body.kind,
        stages=body.stages,
        blast=body.blast,
        shadow=body.shadow,
        patience_s=body.patience_s,
        guard=body.guard,
    )
