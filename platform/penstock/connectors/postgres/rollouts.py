"""Rollouts in Postgres."""

import msgspec
from asyncpg import Record

from penstock.connectors.postgres.audit import note
from penstock.connectors.postgres.database import Database, Session
from penstock.connectors.postgres.queries import load
from penstock.domain.errors import Conflict
from penstock.domain.rollout.rollout import Change, Rollout, Step, Stored, route_of
from penstock.domain.tenancy.audit import Act

_SQL, _ROUTES = load("rollouts"), load("registry")
_ROLLOUT = msgspec.json.Decoder(Rollout)
_CHANGE = msgspec.json.Decoder(Change)


class PostgresRollouts:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def live(self) -> tuple[Stored, ...]:
        return tuple(map(_stored, await self._database.rows(_SQL["live"])))

    async def newest(self, limit: int) -> tuple[Stored, ...]:
        return tuple(map(_stored, await self._database.rows(_SQL["newest"], limit)))

    async def one(self, rollout: str) -> Stored | None:
        row = await self._database.row(_SQL["one"], rollout)
        return None if row is None else _stored(row)

    async def history(self, rollout: str) -> tuple[Change, ...]:
        return tuple(_CHANGE.decode(row["body"]) for row in await self._database.rows(_SQL["history"], rollout))

    async def begin(self, step: Step, act: Act) -> None:
        rollout = step.rollout
        async with self._database.transaction() as session:
            body = msgspec.json.encode(rollout).decode()
            await session.run(_SQL["begin"], rollout.id, rollout.alias, step.change.number, rollout.state.is_over, body)
            await _write(session, step, act)

    async def go_on(self, step: Step, act: Act) -> None:
        rollout = step.rollout
        async with self._database.transaction() as session:
            body = msgspec.json.encode(rollout).decode()
            row = await session.row(_SQL["go_on"], rollout.id, step.change.number, rollout.state.is_over, body)
            if row is None:
                raise Conflict("this rollout has changed meanwhile: look at it again")
            await _write(session, step, act)


async def _write(session: Session, step: Step, act: Act) -> None:
    route, change = route_of(step.rollout), step.change
    await session.run(_SQL["change"], change.rollout, change.number, msgspec.json.encode(change).decode())
    await session.run(_ROUTES["put_route"], route.alias, msgspec.json.encode(route).decode(), act.who, act.at)
    await note(session, act)


def _stored(row: Record) -> Stored:
    return Stored(rollout=_ROLLOUT.decode(row["body"]), number=row["number"])
