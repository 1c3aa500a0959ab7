"""Operators: what the evidence says of versions that share an alias."""

from fastapi import APIRouter, Request, Response

from penstock.control.api.deps import Control
from penstock.control.api.wire import answer
from penstock.domain.errors import InvalidField
from penstock.domain.ids import Alias


class Compared:
    """A/B reports."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def router(self) -> APIRouter:
        """Return its routes."""
        router = APIRouter(tags=["models"])
        router.add_api_route("/aliases/{alias}/comparison", self.comparison, methods=["GET"])
        return router

    async def comparison(self, request: Request, alias: Alias) -> Response:
        """Show what is to be said now of each version that shares the alias with the one that has most of it."""
        await self._control.overseer(request)
        if all(route.alias != alias for route in await self._control.registry.routes()):
            raise InvalidField(f"there is no alias {alias}", param="alias")
        pairs = self._control.comparisons.judged(alias)
        shown = [{"incumbent": pair.incumbent, "judgement": judgement} for pair, judgement in pairs]
        return answer({"alias": alias, "pairs": shown})
