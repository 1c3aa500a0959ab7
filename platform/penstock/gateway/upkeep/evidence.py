"""Evidence of versions that share an alias: counted as requests end, reported to the controllers each second."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from penstock.domain.errors import PenstockError
from penstock.domain.ids import Alias
from penstock.domain.rollout.arms import ArmSecond
from penstock.gateway.evidence import Arms, Shared
from penstock.gateway.routing import CurrentTable
from penstock.telemetry import logs

TELL_EVERY_S = 1.0


class Reports(Protocol):
    """The store of evidence, which controllers read."""

    async def tell(self, second: ArmSecond) -> None:
        """Store one second's counts."""
        ...


@dataclass(slots=True)
class Evidence:
    """Reports each second's counts; an unstored second is left out: missing evidence decides nothing."""

    arms: Arms
    opened: Callable[[], AbstractAsyncContextManager[Reports]]
    _is_away: bool = False

    async def run(self) -> None:
        async with self.opened() as store:
            while True:
                await asyncio.sleep(TELL_EVERY_S)
                await self._tell(store)

    async def _tell(self, store: Reports) -> None:
        second = self.arms.take()
        if second is None:
            return
        try:
            await store.tell(second)
        except PenstockError as error:
            if not self._is_away:
                logs.logger().warning("evidence_not_told", code=error.code, reason=error.message)
            self._is_away = True
        else:
            self._is_away = False


def shared_by(table: CurrentTable, name: str) -> Shared | None:
    """Return the alias that several versions share; None for a version's own name, or a single version."""
    view = table.view
    route = view.routes.get(name)
    if route is None or len(route.shares) == 1:
        return None
    return Shared(Alias(name), max(view.versions[share.version].max_model_len for share in route.shares))
