"""Rollout evidence per second in Postgres, from gateways to controllers."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.queries import load
from penstock.domain.ids import Alias
from penstock.domain.rollout.arms import ASKED_KEPT_S, MINUTE_S, ArmSecond, RecentRequests, Told, asked_since
from penstock.domain.serving.agreement import Agreement, Counts, Pair, Reported, reported

_SQL = load("arms")
_SECOND = msgspec.json.Decoder(ArmSecond)
_MOST = 1000
_NAMES = ("alias", "version", "worker")


class PostgresArms:
    """One row per gateway and second, kept for minutes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def tell(self, second: ArmSecond) -> None:
        """Store a second, and add it to the sums that plans read for a week."""
        if second.is_evidence:
            await self._database.rows(_SQL["tell"], body_of(replace(second, asked=(), agreements=())))
        if second.asked:
            await self._database.rows(_SQL["ask"], *map(list, zip(*second.asked, strict=True)))
        if second.agreements:
            await self._database.rows(_SQL["agree"], _rows_of(second.agreements))

    async def since(self, after: int, within_s: float) -> tuple[Told, ...]:
        return tuple(
            Told(id=row["id"], at=row["told_at"], second=_read(row["body"]))
            for row in await self._database.rows(_SQL["since"], after, within_s, _MOST)
        )

    async def forget(self, older_s: float) -> None:
        await self._database.rows(_SQL["forget"], older_s)
        await self._database.rows(_SQL["forget_asked"], ASKED_KEPT_S / MINUTE_S)
        await self._database.rows(_SQL["forget_agreements"], ASKED_KEPT_S / MINUTE_S)

    async def asked(self, alias: Alias, now: float, over_s: float) -> RecentRequests:
        since = int((now - over_s) // MINUTE_S)
        (row,) = await self._database.rows(_SQL["asked"], alias, since)
        return asked_since(row["requests"], row["first"], since, now)

    async def agreements(self, alias: Alias, now: float, over_s: float) -> tuple[Reported, ...]:
        rows = await self._database.rows(_SQL["agreements"], alias, int((now - over_s) // MINUTE_S))
        return reported(
            Agreement(
                pair=Pair._make(map(row.get, Pair._fields)),
                tenant=row["tenant"],
                counts=Counts._make(map(row.get, Counts._fields)),
            )
            for row in rows
        )


def body_of(second: ArmSecond) -> str:
    told = msgspec.to_builtins(second)
    told["arms"] = [{name: value for name, value in arm.items() if value or name in _NAMES} for arm in told["arms"]]
    return msgspec.json.encode(told).decode()


def _rows_of(told: Sequence[Agreement]) -> str:
    return msgspec.json.encode(
        [{**one.pair._asdict(), "tenant": one.tenant, **one.counts._asdict()} for one in told]
    ).decode()


def _read(body: str) -> ArmSecond | None:
    try:
        return _SECOND.decode(body)
    except (msgspec.MsgspecError, ValueError):
        return None
