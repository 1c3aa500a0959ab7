"""A rollout's state machine: the next state and its line of history, from the evidence. Pure.

Automation holds, aborts, freezes on a spent error budget, and raises a share only by proof; the last stage ends by
time. Unless the rollout allows it (``guard``), automation does not undo a person's promotion but proposes to, once.

Trade-off: a share grows only when the candidate has the workers for it, so a slow fleet delays a good candidate.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite

from penstock.domain.errors import Conflict, InvalidField
from penstock.domain.fleet.table import WEIGHT_TOTAL
from penstock.domain.rollout.judgement import Judgement, Verdict
from penstock.domain.rollout.rollout import Change, Rollout, Stage, State, Step

STALE_S = 30.0
"""Seconds after which a proof expires: silent gateways promote no candidate."""
MOST_S, MOST_STAGES = 30 * 86_400.0, 100
"""The longest stage, a month, and the most stages."""
FETCH_S = 600.0
"""Seconds of the first stage in which new workers wait for caches: 140 GB take two minutes at 10 Gbit/s."""
CONTROLLER = "controller"
"""The actor of automatic changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInputs:
    """``ready`` are the candidate's serving workers, ``needed`` those for its next share, ``unfetched`` the incumbent's
    workers on nodes without the candidate's files. ``budget_spent`` is the error budget's verdict; without data its
    policy decides.
    """

    judgement: Judgement | None = None
    ready: int = 0
    needed: int = 1
    unfetched: int = 0
    budget_spent: bool = False


def check(rollout: Rollout) -> None:
    if rollout.incumbent == rollout.candidate:
        raise InvalidField("the candidate is the incumbent itself", param="candidate")
    if not 1 <= len(rollout.stages) <= MOST_STAGES:
        raise InvalidField(f"name one stage at least, and {MOST_STAGES} at most", param="stages")
    weights = _weights(rollout)
    if any(after < before for before, after in pairwise(weights)):
        raise InvalidField("shares never fall from stage to stage; an abort gives all back", param="stages")
    if not rollout.stages[-1].watched or any(stage.watched for stage in rollout.stages[:-1]):
        raise InvalidField("only the last stage is watched, and it must be", param="stages")
    if weights[-1] != WEIGHT_TOTAL:
        raise InvalidField("the last stage must have 100 % of the traffic", param="stages")
    times = (rollout.patience_s, *(stage.min_s for stage in rollout.stages))
    if not all(isfinite(one) and 0 <= one <= MOST_S for one in times):
        raise InvalidField(f"times are seconds from 0 to {MOST_S:.0f}", param="stages")


def step(rollout: Rollout, seen: StepInputs, now: float, number: int) -> Step | None:
    """Return the change due at ``now`` (Unix seconds), if any; ``number`` becomes its number."""
    if rollout.state.is_over:
        return None
    act = _Act(rollout, now, number, CONTROLLER)
    verdict = _fresh(seen.judgement, now)
    if verdict in (Verdict.ABORT, Verdict.HOLD):
        return _stopped(act, seen.judgement, verdict, _why(seen.judgement))
    if over := _over_blast(rollout, seen.judgement):
        return _stopped(act, seen.judgement, Verdict.HOLD, over)
    if rollout.state is State.RUNNING:
        return _onwards(act, seen, verdict)
    is_thawed = rollout.state is State.FROZEN and not seen.budget_spent
    return act.to(State.RUNNING, "the error budget is not spent any more") if is_thawed else None


def wants_workers(rollout: Rollout, seen: StepInputs, now: float) -> bool:
    if rollout.state is not State.RUNNING or rollout.stages[rollout.stage].watched or seen.ready >= seen.needed:
        return False
    if seen.unfetched and not rollout.stage and now - rollout.since < min(FETCH_S, rollout.patience_s / 2):
        return False
    return _fresh(seen.judgement, now) is Verdict.PROMOTE and not seen.budget_spent


def without_files(seen: StepInputs) -> str:
    says = f"; the caches beside {seen.unfetched} of the incumbent's workers are still without its files"
    return says if seen.unfetched else ""


def hold(rollout: Rollout, now: float, number: int, who: str, why: str) -> Step:
    """Raises ``Conflict`` if the rollout is held already, or over."""
    act = _Act(rollout, now, number, who)
    act.refuse(State.HELD, "it is held already")
    return act.to(State.HELD, why)


def resume(rollout: Rollout, now: float, number: int, who: str, why: str) -> Step:
    act = _Act(rollout, now, number, who)
    act.refuse(State.RUNNING, "it runs")
    return act.to(State.RUNNING, why)


def promote(rollout: Rollout, now: float, number: int, who: str, why: str) -> Step:
    """Regardless of the evidence; raises ``Conflict`` if the rollout is over."""
    act = _Act(rollout, now, number, who)
    act.refuse()
    if _is_last(rollout):
        return act.to(State.DONE, why)
    return act.next_stage(why, by_person=True)


def abort(rollout: Rollout, now: float, number: int, who: str, why: str) -> Step:
    act = _Act(rollout, now, number, who)
    act.refuse()
    return act.to(State.ABORTED, why)


def _weights(rollout: Rollout) -> list[int]:
    """Raises for an invalid share, or a shadow stage without copies."""
    if fault := rollout.shadow.fault:
        raise InvalidField(f"copies: {fault}", param="shadow")
    first, *others = [stage.weight for stage in rollout.stages]
    if not 0 <= first <= WEIGHT_TOTAL or not all(0 < weight <= WEIGHT_TOTAL for weight in others):
        raise InvalidField("each share but the first one is above 0, and 100 % at most", param="stages")
    if not first and not (rollout.shadow.per_s and rollout.shadow.at_once):
        raise InvalidField(
            "a first stage with share 0 is judged by shadow copies alone: set copies above 0", param="shadow"
        )
    return [first, *others]


@dataclass(frozen=True, slots=True)
class _Act:
    rollout: Rollout
    now: float
    number: int
    who: str

    def refuse(self, state: State | None = None, says: str = "") -> None:
        if self.rollout.state.is_over:
            raise Conflict(f"this rollout is {self.rollout.state}: start another one")
        if self.rollout.state is state:
            raise Conflict(f"{says}: nothing was changed")

    def to(self, state: State, says: str, judgement: Judgement | None = None) -> Step:
        after = replace(self.rollout, state=state, since=self.now)
        return Step(rollout=after, change=self._change(after, says, judgement))

    def next_stage(self, says: str, judgement: Judgement | None = None, *, by_person: bool = False) -> Step:
        after = replace(
            self.rollout,
            state=State.RUNNING,
            stage=self.rollout.stage + 1,
            since=self.now,
            by_person=by_person,
            proposed=False,
            proposes=None,
        )
        return Step(rollout=after, change=self._change(after, says, judgement))

    def propose(self, verdict: Verdict, says: str, judgement: Judgement | None) -> Step:
        after = replace(self.rollout, proposed=True, proposes=verdict)
        return Step(rollout=after, change=self._change(after, says, judgement))

    def _change(self, after: Rollout, says: str, judgement: Judgement | None) -> Change:
        return Change(
            rollout=after.id,
            number=self.number,
            at=self.now,
            actor=self.who,
            state=after.state,
            stage=after.stage,
            says=says,
            judgement=judgement,
        )


def _stopped(act: _Act, judgement: Judgement | None, verdict: Verdict, why: str) -> Step | None:
    """After an operator's promotion only propose to stop, and again only if the verdict worsens."""
    rollout = act.rollout
    if not _may_undo(rollout):
        says = f"a person promoted it, so nothing is undone; automation would {verdict} it: {why}"
        is_said = rollout.proposed and (verdict is Verdict.HOLD or rollout.proposes is verdict)
        return None if is_said else act.propose(verdict, says, judgement)
    if verdict is Verdict.ABORT:
        return act.to(State.ABORTED, why, judgement)
    return None if rollout.state is State.HELD else act.to(State.HELD, why, judgement)


def _onwards(act: _Act, seen: StepInputs, verdict: Verdict) -> Step | None:
    rollout = act.rollout
    if seen.budget_spent and not rollout.by_person:
        return act.to(State.FROZEN, "the error budget is spent: nothing is promoted until it is not, or a person does")
    stage, been_s = rollout.stages[rollout.stage], act.now - rollout.since
    if stage.watched and been_s >= stage.min_s:
        return act.to(State.DONE, f"nothing spoke against it for {been_s:.0f} s at all of the traffic")
    if stage.watched or been_s < stage.min_s:
        return None
    if verdict is Verdict.PROMOTE and seen.ready >= seen.needed:
        return act.next_stage(f"proven no worse, at last in {_last(seen.judgement)}", seen.judgement)
    if been_s < rollout.patience_s:
        return None
    lacks = f"{seen.ready} of {seen.needed} workers are ready" if verdict is Verdict.PROMOTE else _unproven(act, seen)
    return act.to(State.HELD, f"{lacks} after {been_s:.0f} s at {_percent(stage)}", seen.judgement)


def _fresh(judgement: Judgement | None, now: float) -> Verdict:
    if judgement is None:
        return Verdict.WAIT
    is_stale = judgement.verdict is Verdict.PROMOTE and now - judgement.at > STALE_S
    return Verdict.WAIT if is_stale else judgement.verdict


def _over_blast(rollout: Rollout, judgement: Judgement | None) -> str:
    """The candidate's token share above its bound; empty if within it."""
    ratio = judgement.tokens_ratio if judgement is not None else None
    most = rollout.blast.tokens_ratio
    if ratio is None or ratio <= most or rollout.stages[rollout.stage].weight == WEIGHT_TOTAL:
        return ""
    return f"it had {ratio:.0%} of all tokens of the last minutes, and {most:.0%} at most were allowed"


def _may_undo(rollout: Rollout) -> bool:
    return rollout.guard or not rollout.by_person


def _unproven(act: _Act, seen: StepInputs) -> str:
    if seen.judgement is None:
        return "no evidence has come, so no proof"
    silent_s = act.now - seen.judgement.at
    if silent_s > STALE_S:
        return f"nothing was told for {silent_s:.0f} s, so no proof"
    waits = [one for one in seen.judgement.findings if one.verdict is Verdict.WAIT]
    least = min(waits, key=lambda one: one.strength or 0.0, default=None)
    why = seen.judgement.unfit or (least.says if least is not None else "")
    return f"{why}: no proof" if why else "no proof"


def _is_last(rollout: Rollout) -> bool:
    return rollout.stage == len(rollout.stages) - 1


def _why(judgement: Judgement | None) -> str:
    return judgement.findings[0].says if judgement is not None and judgement.findings else "no finding is told"


def _last(judgement: Judgement | None) -> str:
    findings = judgement.findings if judgement is not None else ()
    told = [(one.strength, one.says) for one in findings if one.strength is not None]
    return min(told, default=(0.0, "what no finding is told of"))[1]


def _percent(stage: Stage) -> str:
    return f"{stage.weight / 100:g} %"
