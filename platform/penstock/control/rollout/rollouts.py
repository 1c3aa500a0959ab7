"""The operators' acts on rollouts: each is checked by the rules, run through the state machine, and stored.

A spent error budget refuses starts and promotions, unless the caller overrides it with a reason, which is stored.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from penstock.control.rollout import rules, steps
from penstock.domain.errors import Conflict, InvalidField, UnknownRollout
from penstock.domain.fleet.versions import Catalogue, Seen
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import Alias, VersionId
from penstock.domain.models.adapter import bases_of
from penstock.domain.models.model import Tier
from penstock.domain.rollout.arms import RecentRequests
from penstock.domain.rollout.rollout import Change, Rollout, State, Step, Stored
from penstock.domain.tenancy.audit import Act
from penstock.judging.gates import Gates
from penstock.judging.plan import Planned, plan

BudgetSpent = Callable[[Tier, Mapping[VersionId, Tier]], Awaitable[bool]]
"""Whether a tier's error budget is spent, by the outcomes of its versions."""


class Replicas(Protocol):
    async def put_replicas(self, version: VersionId, replicas: int, act: Act) -> object: ...


class RolloutStore(Protocol):
    """A change, the alias's route and the audit entry are written in one transaction; may raise
    ``StoreUnavailable``.
    """

    async def live(self) -> tuple[Stored, ...]: ...

    async def newest(self, limit: int) -> tuple[Stored, ...]: ...

    async def one(self, rollout: str) -> Stored | None: ...

    async def history(self, rollout: str) -> tuple[Change, ...]: ...

    async def begin(self, step: Step, act: Act) -> None:
        """Store a rollout and its first change; ``Conflict`` if its alias has a live one."""
        ...

    async def go_on(self, step: Step, act: Act) -> None:
        """``Conflict`` if the change's number is taken."""
        ...


MOST_TRIES = 5
HOUR_S = 3600.0
_NEWEST = 200


class Move(StrEnum):
    HOLD = "hold"
    RESUME = "resume"
    PROMOTE = "promote"
    ABORT = "abort"


_MOVES = {
    Move.HOLD: steps.hold,
    Move.RESUME: steps.resume,
    Move.PROMOTE: steps.promote,
    Move.ABORT: steps.abort,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """``reason`` is kept in the history and the audit log."""

    reason: str = ""
    dearer: bool = False
    """The candidate's price list is dearer."""
    spent: bool = False
    """The error budget is spent."""
    stage: int | None = None
    """The stage to promote; None for the present one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollouts:
    store: RolloutStore
    catalogue: Callable[[], Awaitable[Catalogue]]
    seen: Callable[[], Awaitable[Sequence[Seen]]]
    budget_spent: BudgetSpent
    gates: Callable[[Tier], Gates]
    asked: Callable[[Alias, float, float], Awaitable[RecentRequests]]
    """An alias's number of requests in some seconds before a moment (Unix seconds)."""

    async def start(self, asked: Rollout, consent: Consent, act: Act) -> Stored:
        """The incumbent must have all of the alias; raises ``InvalidField``, ``UnknownModel`` or ``Conflict``."""
        known, live = await self.catalogue(), [one.rollout for one in await self.store.live()]
        rollout = replace(
            asked,
            incumbent=rules.incumbent_of(asked.alias, known.routes, live),
            state=State.RUNNING,
            stage=0,
            since=act.at,
            began_at=act.at,
        )
        rules.check(rollout, known, live)
        prices = {one.id: one.manifest.price for one in known.versions}
        dearer = rules.dearer(prices[rollout.incumbent], prices[rollout.candidate])
        if dearer and not consent.dearer:
            raise Conflict(
                f"the candidate's prices are higher ({dearer}, per million tokens): accept that, or lower them"
            )
        self._need_worker(rollout.candidate, known, await self.seen())
        await self._check_budget(rollout, known, consent)
        says = consent.reason or f"started beside {rollout.incumbent}"
        says += rules.shorter(known, rollout)
        step = Step(rollout=rollout, change=_first(rollout, act, says))
        await self.store.begin(step, replace(act, target=rollout.id, detail=f"{rollout.alias}: {says}"))
        return Stored(rollout=rollout, number=1)

    async def plan(self, asked: Rollout, now: float, hours: float) -> Planned:
        """Estimate durations with the last hours' traffic; the rollout may be live already.

        Raises ``UnknownModel``, ``InvalidField`` or ``Conflict``.
        """
        known, live = await self.catalogue(), [one.rollout for one in await self.store.live()]
        mine = next((one for one in live if (one.alias, one.candidate) == (asked.alias, asked.candidate)), None)
        incumbent = mine.incumbent if mine is not None else rules.incumbent_of(asked.alias, known.routes, live)
        rollout = replace(asked, incumbent=incumbent)
        rules.check_pair(rollout, known)
        tier = next(one.manifest.tier for one in known.versions if one.id == rollout.incumbent)
        serving = len(_serving(rollout.incumbent, known, await self.seen()))
        had = await self.asked(asked.alias, now, hours * HOUR_S)
        return plan(rollout, had.requests, had.over_s, self.gates(tier), max(1, serving))

    async def move(self, rollout: str, move: Move, consent: Consent, act: Act) -> Stored:
        """Hold, resume, promote or abort; raises ``UnknownRollout``, ``InvalidField`` or ``Conflict``."""
        if not consent.reason:
            raise InvalidField("give a reason: it is kept in the history", param="reason")
        tries, stage = 0, consent.stage
        while True:
            stored = await self.one(rollout)
            stage = stored.rollout.stage if stage is None else stage
            if move is Move.PROMOTE and stored.rollout.stage != stage:
                raise Conflict(
                    "the rollout has moved to another stage meanwhile: look at it before you promote that one"
                )
            if move is Move.PROMOTE and not stored.rollout.state.is_over:
                known = await self.catalogue()
                await self._check_budget(stored.rollout, known, consent)
                self._need_worker(stored.rollout.candidate, known, await self.seen())
            step = _MOVES[move](stored.rollout, act.at, stored.number + 1, act.who, consent.reason)
            try:
                await self.store.go_on(
                    step, replace(act, target=rollout, detail=f"{stored.rollout.alias}: {consent.reason}")
                )
            except Conflict:
                tries += 1
                if tries == MOST_TRIES:
                    raise
            else:
                return Stored(rollout=step.rollout, number=step.change.number)

    async def one(self, rollout: str) -> Stored:
        stored = await self.store.one(rollout)
        if stored is None:
            raise UnknownRollout(f"there is no rollout {rollout[:80]!r}")
        return stored

    async def listed(self, alias: Alias | None = None) -> tuple[Stored, ...]:
        found = await self.store.newest(_NEWEST)
        return tuple(one for one in found if alias in (None, one.rollout.alias))

    async def check_free(self, aliases: Iterable[Alias]) -> None:
        wanted = set(aliases)
        for one in await self.store.live():
            if one.rollout.alias in wanted:
                raise Conflict(
                    f"the rollout {one.rollout.id} decides the versions of {one.rollout.alias}: abort it first"
                )

    async def check_idle(self, version: VersionId) -> None:
        for one in await self.store.live():
            if version in (one.rollout.incumbent, one.rollout.candidate):
                raise Conflict(f"{version} takes part in the rollout {one.rollout.id}: end it first")

    async def _check_budget(self, rollout: Rollout, known: Catalogue, consent: Consent) -> None:
        if consent.spent and not consent.reason:
            raise InvalidField("give a reason for overriding the error budget, even if it is not spent", param="reason")
        tiers = {one.id: one.manifest.tier for one in known.versions}
        if not await self.budget_spent(tiers[rollout.incumbent], tiers):
            return
        if not consent.spent:
            says = f"the error budget of tier {tiers[rollout.incumbent]} is spent (penstock slo status)"
            raise Conflict(f"{says}: wait, or override it (--override-budget --reason TEXT)")

    @staticmethod
    def _need_worker(version: VersionId, known: Catalogue, seen: Sequence[Seen]) -> None:
        if _serving(version, known, seen):
            return
        if any(one.report.state is WorkerState.SLEEPING for one in _workers(version, known, seen)):
            raise Conflict(
                f"{version} is asleep, and a rollout's versions must stay awake: penstock models pin {version}"
            )
        raise Conflict(f"no worker of {version} serves yet: wait until one is ready (penstock status)")


def _serving(version: VersionId, known: Catalogue, seen: Iterable[Seen]) -> list[Seen]:
    return [one for one in _workers(version, known, seen) if one.report.state.serves]


def _workers(version: VersionId, known: Catalogue, seen: Iterable[Seen]) -> list[Seen]:
    staffed = bases_of(known.versions).get(version, version)
    return [one for one in seen if one.report.version == staffed]


def _first(rollout: Rollout, act: Act, says: str) -> Change:
    return Change(
        rollout=rollout.id, number=1, at=act.at, actor=act.who, state=rollout.state, stage=rollout.stage, says=says
    )
