"""Shadow copies of one gateway: the versions that they may use, and their pipeline."""

import secrets
from dataclasses import dataclass

from penstock.apps.gateway.shared import Shared
from penstock.domain.fleet.table import Route, VersionEntry
from penstock.domain.ids import VersionId
from penstock.gateway.evidence.counting import Arms
from penstock.gateway.routing.current import CurrentTable
from penstock.gateway.routing.resolve import TableResolver, sticky_key
from penstock.gateway.routing.route import WorkerRouter
from penstock.gateway.shadow.comparing import Comparing
from penstock.gateway.shadow.copies import Left
from penstock.gateway.shadow.shadows import Copying, Shadows
from penstock.gateway.shadow.unseen import Unseen
from penstock.gateway.streaming.continuation import is_plain
from penstock.telemetry import names
from penstock.telemetry.metrics import begin_at_zero

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


def copying(shared: Shared, router: WorkerRouter, resolver: TableResolver, arms: Arms) -> Copying:
    unseen = Unseen(
        ids=lambda: f"shadow-{secrets.token_hex(_ID_BYTES)}",
        clock=shared.clock,
        apart_s=lambda: shared.chance.uniform(0.0, _APART_S),
        is_plain=is_plain,
        spawn=shared.spawn,
        metrics=shared.metrics,
    )
    begin_at_zero(shared.metrics.counter(names.SHADOW_LEFT_OUT), Left)
    table = shared.table
    candidates = Shadows(
        routes=_Versions(table, router),
        sticky=sticky_key,
        differed=arms.differed,
        unseen=unseen,
    )
    rules = Comparing(
        autos=lambda alias: table.view.autos.get(alias),  # noqa: PLW0108  the view changes
        resolve=resolver.resolve,
        is_awake=lambda version: bool(table.view.rosters[version].serving),
        told=arms.compared,
        unseen=unseen,
    )
    return Copying(candidates, rules)
