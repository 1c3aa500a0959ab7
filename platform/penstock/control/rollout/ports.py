"""Ports of rollouts."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from penstock.domain.ids import VersionId
from penstock.domain.models.model import Tier
from penstock.domain.rollout.rollout import Change, Step, Stored
from penstock.domain.tenancy.audit import Act

BudgetSpent = Callable[[Tier, Mapping[VersionId, Tier]], Awaitable[bool]]
"""Whether a tier's error budget is spent, by the outcomes of its versions."""


class Replicas(Protocol):
    async def put_replicas(self, version: VersionId, replicas: int, act: Act) -> object: ...


class RolloutStore(Protocol):
    """The store of rollouts. A change, the alias's route and the audit entry are written in one transaction; may
    raise ``StoreUnavailable``.
    """

    async def live(self) -> tuple[Stored, ...]:
        """Return the rollouts that are not over, by alias."""
        ...

    async def newest(self, limit: int) -> tuple[Stored, ...]: ...

    async def one(self, rollout: str) -> Stored | None: ...

    async def history(self, rollout: str) -> tuple[Change, ...]: ...

    async def begin(self, step: Step, act: Act) -> None:
        """Store a new rollout with its first change; ``Conflict`` if its alias has a live one."""
        ...

    async def go_on(self, step: Step, act: Act) -> None:
        """Store a rollout's next state; ``Conflict`` if the change's number is taken."""
        ...
