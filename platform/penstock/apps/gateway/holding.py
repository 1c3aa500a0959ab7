"""Requests that wait for a version to wake, and the report of all demand to the controllers."""

from dataclasses import dataclass

from penstock.apps.gateway.shared import Shared
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.demand import PostgresDemandTeller
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.ids import VersionId
from penstock.gateway.holding import Holding, HoldSettings, WakeDemand
from penstock.gateway.routing import CurrentTable


@dataclass(frozen=True, slots=True)
class _Versions:
    table: CurrentTable

    def version(self, version: VersionId) -> VersionEntry | None:
        return self.table.version(version)

    def serving(self, version: VersionId) -> int:
        roster = self.table.view.rosters.get(version)
        return len(roster.serving) if roster is not None else 0


@dataclass(frozen=True, slots=True)
class Telling:
    """Reports demand over a separate database connection."""

    demand: WakeDemand
    dsn: str

    async def run(self) -> None:
        async with Database(self.dsn, max_connections=1) as database:
            teller = PostgresDemandTeller(database)
            try:
                await self.demand.run(teller)
            finally:  # an ended gateway is not a silent one
                await self.demand.tell(teller, has_ended=True)


def holding(shared: Shared) -> Holding:
    ours = shared.settings
    made = Holding(
        fleet=_Versions(shared.table),
        demand=shared.demand,
        clock=shared.clock,
        settings=HoldSettings(requests=ours.hold_requests, tokens=ours.hold_tokens, seconds=ours.hold_s),
        metrics=shared.metrics,
    )
    shared.table.on_change(lambda _, after: made.learn(after.table.versions))
    return made
