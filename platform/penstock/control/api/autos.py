"""Operators: auto aliases, names that stand for ordered rules."""

from fastapi import APIRouter, Request, Response

from penstock.control.api.bodies import NewRules
from penstock.control.api.deps import Control
from penstock.control.api.wire import answer, read
from penstock.domain.auto import Auto
from penstock.domain.errors import UnknownModel
from penstock.domain.ids import Alias


class Autos:
    """The rules of each."""

    def __init__(self, control: Control) -> None:
        """Take the rooms."""
        self._control = control
        self._registry = control.registry

    def router(self) -> APIRouter:
        """Return its routes."""
        router = APIRouter(tags=["models"])
        router.add_api_route("/autos", self.autos, methods=["GET"])
        router.add_api_route("/autos/{alias}", self.auto, methods=["GET"])
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
