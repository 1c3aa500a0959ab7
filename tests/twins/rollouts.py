"""Rollouts in memory. Twin of ``connectors.postgres.rollouts``."""

from penstock.domain.errors import Conflict
from penstock.domain.rollout.rollout import Change, Step, Stored, route_of
from penstock.domain.tenancy.audit import Act
from tests.twins.registry import MemoryRegistry


class MemoryRollouts:
    """Rollouts and their changes."""

    def __init__(self, registry: MemoryRegistry) -> None:
        self._registry = registry
        self._stored: dict[str, Stored] = {}
        self._changes: dict[str, list[Change]] = {}

    async def live(self) -> tuple[Stored, ...]:
        """Return those that are not over, by alias."""
        found = [one for one in self._stored.values() if not one.rollout.state.is_over]
        return tuple(sorted(found, key=lambda one: one.rollout.alias))

    async def newest(self, limit: int) -> tuple[Stored, ...]:
        """Return the newest, newest first."""
        found = sorted(self._stored.values(), key=lambda one: (-one.rollout.began_at, one.rollout.id))
        return tuple(found[:limit])

    async def one(self, rollout: str) -> Stored | None:
        """Return one by its id."""
        return self._stored.get(rollout)

    async def history(self, rollout: str) -> tuple[Change, ...]:
        """Return every change, oldest first."""
        return tuple(self._changes.get(rollout, ()))

    async def begin(self, step: Step, act: Act) -> None:
        """Store a new one with its first change."""
        if any(one.rollout.alias == step.rollout.alias for one in await self.live()):
            raise Conflict("this rollout exists already")
        await self._write(step, act)

    async def go_on(self, step: Step, act: Act) -> None:
        """Store what it has become, where nobody was first."""
        known = self._stored.get(step.rollout.id)
        if known is None or known.rollout.state.is_over or step.change.number != known.number + 1:
            raise Conflict("this rollout has changed meanwhile: look at it again")
        await self._write(step, act)

    async def _write(self, step: Step, act: Act) -> None:
        self._stored[step.rollout.id] = Stored(rollout=step.rollout, number=step.change.number)
        self._changes.setdefault(step.rollout.id, []).append(step.change)
        route = route_of(step.rollout)
        await self._registry.put_routes(((route.alias, route),), act)
