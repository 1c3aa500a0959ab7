"""Shadow copies of one gateway: what they need to know of versions, and the corridor that they go through."""

import secrets
from dataclasses import dataclass

from penstock.apps.gateway.shared import Shared
from penstock.domain.ids import VersionId
from penstock.domain.table import Route, VersionEntry
from penstock.gateway.arms import Arms
from penstock.gateway.routing import CurrentTable, WorkerRouter, sticky_key
from penstock.gateway.shadow import Shadows
from penstock.gateway.streaming import is_plain

_ID_BYTES = 12
_APART_S = 1.0


@dataclass(frozen=True, slots=True)
class _Versions:
    table: CurrentTable
    router: WorkerRouter

    def route(self, name: str) -> Route | None:
        return self.table.view.routes.get(name)

    def version(self, version: VersionId) -> VersionEntry | None:
        return self.table.version(version)

    def running(self, version: VersionId) -> float:
        return self.router.running(version)


def shadows(shared: Shared, router: WorkerRouter, arms: Arms) -> Shadows:
    """Put them together; whoever makes the corridor gives it to them."""
    return Shadows(
        routes=_Versions(shared.table, router),
        sticky=sticky_key,
        differed=arms.differed,
        is_plain=is_plain,
        ids=lambda: f"shadow-{secrets.token_hex(_ID_BYTES)}",
        apart_s=lambda: shared.chance.uniform(0.0, _APART_S),
        clock=shared.clock,
        spawn=shared.spawn,
        metrics=shared.metrics,
    )
