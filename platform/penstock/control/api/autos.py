"""Operators: auto aliases, names that stand for ordered rules."""

from typing import Any

from fastapi import APIRouter, Request, Response

from penstock.control.api.bodies import NewRules
from penstock.control.api.deps import Control
from penstock.control.api.wire import answer, read
from penstock.domain.errors import InvalidField, UnknownModel
from penstock.domain.ids import Alias
from penstock.domain.serving.agreement import Reported, between
from penstock.domain.serving.auto import Auto

HOUR_S = 3600.0
DAY_HOURS, MOST_HOURS = 24.0, 168.0


class Autos:
    """The rules of each."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._registry = control.registry

    def router(self) -> APIRouter:
        """Return its routes."""
        router = APIRouter(tags=["models"])
        router.add_api_route("/autos", self.autos, methods=["GET"])
        router.add_api_route("/autos/{alias}", self.auto, methods=["GET"])
        router.add_api_route("/autos/{alias}/report", self.report, methods=["GET"])
        router.add_api_route("/autos/{alias}", self.put, methods=["PUT"])
        router.add_api_route("/autos/{alias}", self.remove, methods=["DELETE"])
        return router

    async def autos(self, request: Request) -> Response:
        """List those in force."""
        await self._control.operator(request)
        return answer({"autos": await self._registry.autos()})

    async def auto(self, request: Request, alias: Alias) -> Response:
        """Show what one was set to, newest first."""
        await self._control.operator(request)
        history = await self._registry.auto_history(alias)
        if not history:
            raise UnknownModel(f"there is no auto alias {alias[:80]}")
        return answer({"alias": alias, "history": history})

    async def report(self, request: Request, alias: Alias, hours: float = DAY_HOURS) -> Response:
        """Tell how often the model of one rule would have answered as that of another did, in the last hours."""
        await self._control.overseer(request)
        if not 0.0 < hours <= MOST_HOURS:
            raise InvalidField(f"above 0 hours, and {MOST_HOURS:g} at most", param="hours")
        auto = next((one for one in await self._registry.autos() if one.alias == alias), None)
        if auto is None:
            raise UnknownModel(f"there is no auto alias {alias[:80]}")
        found = await self._control.agreements(alias, self._control.clock.now(), hours * HOUR_S)
        return answer({"auto": auto, "hours": hours, "pairs": [_shown(one) for one in found]})

    async def put(self, request: Request, alias: Alias) -> Response:
        """Set the rules of one."""
        act = await self._control.act(request, "auto.put", alias)
        body = await read(request, NewRules)
        auto = await self._registry.put_auto(Auto(alias=alias, rules=tuple(one.rule for one in body.rules)), act)
        self._control.runtime.wake()
        return answer(auto)

    async def remove(self, request: Request, alias: Alias) -> Response:
        """Take one away."""
        act = await self._control.act(request, "auto.remove", alias)
        await self._registry.remove_auto(alias, act)
        self._control.runtime.wake()
        return answer({"alias": alias, "removed": True})


def _shown(one: Reported) -> dict[str, Any]:
    counts = one.counts
    return {
        **one.pair._asdict(),
        **counts._asdict(),
        "tenants": one.tenants,
        "most": one.most,
        "forms_ratio": one.forms_ratio,
        "forms_between": between(counts.forms_agreed, counts.forms) if counts.forms else None,
        "texts_ratio": one.texts_ratio,
        "texts_between": between(counts.texts_agreed, counts.texts) if counts.texts else None,
        "alike_ratio": one.alike_ratio,
        "price_ratio": one.price_ratio,
    }
