"""What rollouts need from others."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from penstock.domain.ids import VersionId
from penstock.domain.models.model import Tier
from penstock.domain.rollout.rollout import Change, Step, Stored
from penstock.domain.tenancy.audit import Act

BudgetSpent = Callable[[Tier, Mapping[VersionId, Tier]], Awaitable[bool]]
"""Whether a tier's error budget is spent, by the ends of its versions."""


class Replicas(Protocol):
    """How many workers a version has."""

    async def put_replicas(self, version: VersionId, replicas: int, act: Act) -> object:
        """Set it."""
        ...


class RolloutStore(Protocol):
    """A change, the alias's route and the act are written together or not at all; may raise ``StoreUnavailable``."""

    async def live(self) -> tuple[Stored, ...]:
        """Those that are not over, by alias."""
        ...

    async def newest(self, limit: int) -> tuple[Stored, ...]:
        """The newest, over or not, newest first."""
        ...

    async def one(self, rollout: str) -> Stored | None:
        """One by its id."""
        ...

    async def history(self, rollout: str) -> tuple[Change, ...]:
        """Every change, oldest first."""
        ...

    async def begin(self, step: Step, act: Act) -> None:
        """Store a new one with its first change; ``Conflict`` where its alias has one that is not over."""
        ...

    async def go_on(self, step: Step, act: Act) -> None:
        """Store what it has become; ``Conflict`` where somebody was first: the change's number is taken."""
        ...
