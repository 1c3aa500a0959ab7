"""Requests that wait for a version to wake, and the report of all demand to the controllers."""

from dataclasses import dataclass

from penstock.apps.gateway.shared import Shared
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.demand import PostgresDemandTeller
from penstock.gateway.holding import Holding, HoldSettings, WakeDemand


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
        fleet=shared.table,
        demand=shared.demand,
        clock=shared.clock,
        settings=HoldSettings(requests=ours.hold_requests, tokens=ours.hold_tokens, seconds=ours.hold_s),
        metrics=shared.metrics,
    )
    shared.table.on_change(lambda _, after: made.learn(after.table.versions))
    return made
