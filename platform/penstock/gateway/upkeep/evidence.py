"""Reports evidence on versions that share an alias to the controllers each second."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from penstock.domain.ids import Alias
from penstock.gateway.evidence.counting import Arms, Shared, Store
from penstock.gateway.routing.current import CurrentTable


@dataclass(frozen=True, slots=True)
class Evidence:
    arms: Arms
    opened: Callable[[], AbstractAsyncContextManager[Store]]

    async def run(self) -> None:
        async with self.opened() as store:
            await self.arms.tell(store)


def shared_by(table: CurrentTable, name: str) -> Shared | None:
    """Return the alias and its versions' longest context; None for a version's own name, or a single version."""
    view = table.view
    route = view.routes.get(name)
    if route is None or len(route.shares) == 1:
        return None
    return Shared(Alias(name), max(view.versions[share.version].max_model_len for share in route.shares))
