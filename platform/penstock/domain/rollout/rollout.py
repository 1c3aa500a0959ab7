"""A rollout: stages by which a candidate takes an alias over from an incumbent."""

from dataclasses import dataclass
from enum import StrEnum

from penstock.domain.fleet.table import WEIGHT_TOTAL, Override, Route, Share
from penstock.domain.ids import Alias, TenantId, VersionId
from penstock.domain.rollout.judgement import Judgement, Verdict
from penstock.domain.serving.shadow import CAPS, Shadow, ShadowCaps


class Kind(StrEnum):
    EQUIVALENT = "equivalent"
    """The same model in another form (engine, precision, template): its answers should equal the incumbent's."""
    DIFFERENT = "different"
    """Another model: different answers prove nothing, and a person judges their quality."""


class State(StrEnum):
    RUNNING = "running"
    HELD = "held"
    """The rollout stays at its share until a person resumes it."""
    FROZEN = "frozen"
    """The alias's error budget is spent: no promotion until it recovers, or a person overrides."""
    ABORTED = "aborted"
    DONE = "done"

    @property
    def is_over(self) -> bool:
        return self in _OVER


_OVER = frozenset({State.ABORTED, State.DONE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A share in parts of ``WEIGHT_TOTAL``; only the last stage is ``watched``.

    The first may have share 0: the candidate gets shadow copies only, and no caller sees its answers.
    """

    name: str
    weight: int
    min_s: float = 60.0
    """The minimum duration of the stage in seconds."""
    watched: bool = False
    """The candidate has all traffic; the incumbent's workers stay ready until ``min_s`` is over."""


PATIENCE_S = 3600.0
"""Seconds that a stage may last without a proof, by default."""
STAGES = (
    Stage(name="shadow", weight=0),
    Stage(name="1 %", weight=WEIGHT_TOTAL // 100),
    Stage(name="5 %", weight=WEIGHT_TOTAL // 20),
    Stage(name="25 %", weight=WEIGHT_TOTAL // 4),
    Stage(name="50 %", weight=WEIGHT_TOTAL // 2),
    Stage(name="100 %", weight=WEIGHT_TOTAL),
    Stage(name="watched", weight=WEIGHT_TOTAL, min_s=600.0, watched=True),
)
"""Stages of a rollout that names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blast:
    tokens_ratio: float = 1.0
    """The highest part of both versions' recent tokens for the candidate; above it the rollout is held. A share by user
    or tenant is a different figure.
    """
    out: tuple[str, ...] = ()
    """Tenants that stay with the incumbent until the rollout is done."""
    first: tuple[str, ...] = ()
    """Tenants that are with the candidate from the first stage on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """Times are Unix seconds; ``stage`` is an index into ``stages``."""

    id: str
    alias: Alias
    incumbent: VersionId
    candidate: VersionId
    kind: Kind = Kind.EQUIVALENT
    stages: tuple[Stage, ...] = STAGES
    blast: Blast = Blast()
    shadow: ShadowCaps = CAPS
    """Bounds on copies: evidence in the shadow stage, and load of the incumbent's workers in later stages."""
    patience_s: float = PATIENCE_S
    """Seconds that a stage may last without a proof; then the rollout is held."""
    guard: bool = False
    """Whether automation may abort after a person has promoted."""
    state: State = State.RUNNING
    stage: int = 0
    since: float = 0.0
    """The time at which the rollout came to this stage or state."""
    by_person: bool = False
    """A person promoted it to this stage: automation proposes and pages, and aborts only with ``guard``."""
    proposed: bool = False
    """Whether automation has proposed to undo a person's promotion."""
    proposes: Verdict | None = None
    """The last proposal; None without one, and in older rows."""
    began_at: float = 0.0

    @property
    def weight(self) -> int:
        """The candidate's present share, in parts of ``WEIGHT_TOTAL``."""
        if self.state is State.ABORTED:
            return 0
        return WEIGHT_TOTAL if self.state is State.DONE else self.stages[self.stage].weight


def shadow_of(rollout: Rollout) -> Shadow | None:
    """Return None if no requests are copied.

    A held candidate still gets copies: otherwise it could never be proven worse in shadow.
    """
    if rollout.state not in (State.RUNNING, State.HELD) or rollout.weight == WEIGHT_TOTAL or not rollout.shadow.per_s:
        return None
    scores = rollout.kind is Kind.EQUIVALENT and rollout.shadow.scored_per_s > 0
    out = tuple(TenantId(tenant) for tenant in sorted(rollout.blast.out))
    return Shadow(version=rollout.candidate, caps=rollout.shadow, scores=scores, out=out)


def route_of(rollout: Rollout) -> Route:
    """Return both versions while the rollout lives, even without a share.

    Excluded and pilot tenants get their version regardless of shares.
    """
    alone = {State.ABORTED: rollout.incumbent, State.DONE: rollout.candidate}.get(rollout.state)
    if alone is not None:
        return Route(alias=rollout.alias, shares=(Share(version=alone, weight=WEIGHT_TOTAL),))
    rest = Share(version=rollout.incumbent, weight=WEIGHT_TOTAL - rollout.weight)
    shares, shadow = (rest, Share(version=rollout.candidate, weight=rollout.weight)), shadow_of(rollout)
    if not rollout.weight:
        return Route(alias=rollout.alias, shares=shares, shadow=shadow)
    own = dict.fromkeys(rollout.blast.first, rollout.candidate) | dict.fromkeys(rollout.blast.out, rollout.incumbent)
    overrides = tuple(Override(tenant=TenantId(tenant), version=own[tenant]) for tenant in sorted(own))
    return Route(alias=rollout.alias, shares=shares, fallback=rollout.incumbent, overrides=overrides, shadow=shadow)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    rollout: str
    number: int
    at: float
    actor: str
    """A key's id, or ``controller``."""
    state: State
    stage: int
    says: str
    """The reason, in words and figures."""
    judgement: Judgement | None = None
    """The evidence behind the change; None for a person's act."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    rollout: Rollout
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    rollout: Rollout
    number: int
