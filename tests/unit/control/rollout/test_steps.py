"""The life of a rollout: proof alone goes on, automation never undoes a person, and an abort is always possible."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.control.rollout import steps
from penstock.control.rollout.steps import StepInputs
from penstock.domain.errors import Conflict, InvalidField
from penstock.domain.fleet.table import WEIGHT_TOTAL
from penstock.domain.ids import Alias, VersionId
from penstock.domain.rollout.judgement import Judgement, Metric, MetricFinding, Verdict
from penstock.domain.rollout.rollout import STAGES, Blast, Rollout, Stage, State, Step
from penstock.domain.serving.shadow import ShadowCaps

OLD, NEW = VersionId("m@old"), VersionId("m@new")
START = Rollout(id="r", alias=Alias("chat"), incumbent=OLD, candidate=NEW, stages=STAGES[1:])
LAST = len(START.stages) - 1


def said(verdict: Verdict) -> Judgement:
    finding = MetricFinding(metric=Metric.TTFT, verdict=verdict, strength=2.0, sample=200, says=f"ttft says {verdict}")
    return Judgement(version=NEW, at=0.0, verdict=verdict, findings=(finding,))


def seen(verdict: Verdict = Verdict.WAIT, *, ready: int = 1, needed: int = 1, budget_spent: bool = False) -> StepInputs:
    return StepInputs(judgement=said(verdict), ready=ready, needed=needed, budget_spent=budget_spent)


def after(rollout: Rollout, what: StepInputs, now: float = 61.0) -> Rollout:
    told = replace(what, judgement=what.judgement and replace(what.judgement, at=now))
    taken = steps.step(rollout, told, now, 1)
    return taken.rollout if taken else rollout


def test_it_goes_through_its_stages_by_proof_and_ends_by_time() -> None:
    """A proof at each share, the stage's least time, and at last a while of being watched."""
    rollout, now, shares = replace(START, stages=STAGES), 0.0, [0]
    while rollout.state is State.RUNNING:
        assert after(rollout, seen(Verdict.PROMOTE), now + 59.0) == rollout
        now += 600.0
        rollout = after(rollout, seen(Verdict.PROMOTE), now)
        shares.append(rollout.weight)
    assert (rollout.state, shares) == (State.DONE, [0, 100, 500, 2500, 5000, 10_000, 10_000, 10_000])


def test_a_promotion_says_what_was_proven_with_the_least_to_spare() -> None:
    """That is what the others waited for; one without a strength was no proof."""
    found = said(Verdict.PROMOTE).findings[0]
    others = (replace(found, strength=1.1, says="cut: the last"), replace(found, strength=None, says="no sample"))
    judged = replace(said(Verdict.PROMOTE), findings=(found, *others), at=61.0)
    taken = steps.step(START, StepInputs(judgement=judged, ready=1, needed=1), 61.0, 1)
    assert taken is not None
    assert taken.change.says == "proven no worse, at last in cut: the last"


def test_new_workers_wait_for_their_nodes_caches_within_a_bound() -> None:
    """In the first stage, for half of its patience at most; then they are started, and the record says so."""
    what = replace(seen(Verdict.PROMOTE, needed=2), unfetched=3)
    hurried = replace(START, patience_s=100.0)
    for rollout, bound_s in ((START, steps.FETCH_S), (hurried, 50.0)):
        for now, wants in ((1.0, False), (bound_s - 1.0, False), (bound_s, True)):
            told = replace(what, judgement=replace(said(Verdict.PROMOTE), at=now))
            assert steps.wants_workers(rollout, told, now) is wants
            assert steps.wants_workers(rollout, replace(told, unfetched=0), now)
            assert steps.wants_workers(replace(rollout, stage=1), told, now)
    assert steps.without_files(what) == "; the caches beside 3 of the incumbent's workers are still without its files"
    assert not steps.without_files(replace(what, unfetched=0))


@pytest.mark.parametrize("judgement", [None, said(Verdict.WAIT)])
def test_without_a_proof_it_waits_and_is_held_when_patience_ends(judgement: Judgement | None) -> None:
    """Missing evidence promotes nothing and aborts nothing."""
    what = StepInputs(judgement=judgement, ready=1)
    assert after(START, what, 3599.0) == START
    held = steps.step(START, what, 3600.0, 7)
    assert held is not None
    assert (held.rollout.state, held.rollout.weight, held.change.number) == (State.HELD, START.weight, 7)
    assert "no proof after 3600 s at 1 %" in held.change.says


def test_a_proof_that_nobody_confirms_is_none() -> None:
    """Gateways that have gone silent promote nobody, and the hold that follows says so; harm does not age."""
    silent = StepInputs(judgement=said(Verdict.PROMOTE), ready=1, needed=1)
    assert steps.step(START, silent, 61.0, 1) is None
    held = steps.step(START, silent, 3600.0, 1)
    assert held is not None
    assert held.change.says == "nothing was told for 3600 s, so no proof after 3600 s at 1 %"
    assert not steps.wants_workers(START, replace(silent, ready=0), 61.0)
    aborted = steps.step(START, StepInputs(judgement=said(Verdict.ABORT)), 61.0, 1)
    assert aborted is not None
    assert aborted.rollout.state is State.ABORTED


def test_more_tokens_than_were_allowed_hold_it_until_it_has_everything() -> None:
    """A share by tenant may be anything: what was touched counts, and at 100 % there is no such bound."""
    some = replace(START, blast=Blast(tokens_ratio=0.2))
    judged = replace(said(Verdict.PROMOTE), tokens_ratio=0.41)
    held = steps.step(some, StepInputs(judgement=replace(judged, at=10.0), ready=1), 10.0, 2)
    assert held is not None
    assert held.rollout.state is State.HELD
    assert held.change.says == "it had 41% of all tokens of the last minutes, and 20% at most were allowed"
    assert after(some, StepInputs(judgement=replace(judged, tokens_ratio=0.2), ready=1), 10.0) == some
    assert after(some, StepInputs(judgement=replace(judged, tokens_ratio=None), ready=1), 10.0) == some
    everything = replace(some, stage=LAST)
    assert after(everything, StepInputs(judgement=judged, ready=1), 10.0) == everything
    promoted = replace(some, by_person=True)
    asked = steps.step(promoted, StepInputs(judgement=judged), 10.0, 2)
    assert asked is not None
    assert (asked.rollout.state, asked.rollout.proposed) == (State.RUNNING, True)


def test_a_share_waits_for_its_workers() -> None:
    """A proof moves nothing while the candidate has too few workers for the next share."""
    assert after(START, seen(Verdict.PROMOTE, ready=1, needed=2)) == START
    held = after(START, seen(Verdict.PROMOTE, ready=1, needed=2), 3600.0)
    assert held.state is State.HELD
    assert after(START, seen(Verdict.PROMOTE, ready=2, needed=2)).stage == 1


@pytest.mark.parametrize("state", [State.RUNNING, State.HELD, State.FROZEN])
@pytest.mark.parametrize("stage", range(LAST + 1))
def test_a_verdict_aborts_from_every_state_at_once(state: State, stage: int) -> None:
    """Also in the first second, with the budget spent, and when it has everything; the history says why."""
    taken = steps.step(replace(START, state=state, stage=stage), seen(Verdict.ABORT, budget_spent=True), 0.0, 1)
    assert taken is not None
    assert (taken.rollout.state, taken.rollout.weight) == (State.ABORTED, 0)
    assert (taken.change.actor, taken.change.says) == ("controller", "ttft says abort")
    assert taken.change.judgement == said(Verdict.ABORT)


def test_a_lesser_finding_holds_it_where_it_is() -> None:
    """Until a person resumes it, whatever is proven meanwhile."""
    held = after(replace(START, stage=2), seen(Verdict.HOLD))
    assert (held.state, held.weight) == (State.HELD, 2500)
    assert after(held, seen(Verdict.PROMOTE), 9999.0) == held
    assert after(held, seen(Verdict.HOLD), 9999.0) == held
    resumed = steps.resume(held, 100.0, 2, "anna", "looked at it").rollout
    assert after(resumed, seen(Verdict.PROMOTE), 161.0).stage == 3


def test_a_spent_budget_freezes_and_comes_back_by_itself() -> None:
    """Nothing is promoted meanwhile."""
    frozen = after(START, seen(Verdict.PROMOTE, budget_spent=True))
    assert (frozen.state, frozen.stage) == (State.FROZEN, 0)
    assert after(frozen, seen(Verdict.PROMOTE, budget_spent=True), 9999.0) == frozen
    assert after(frozen, seen(), 200.0).state is State.RUNNING


def test_a_proposal_that_has_become_worse_is_made_again() -> None:
    """From hold to abort it is news, from abort to hold it is none; the rollout tells the last one."""
    mine = steps.promote(START, 10.0, 1, "anna", "I have looked").rollout
    held = after(mine, seen(Verdict.HOLD), 20.0)
    worse = after(held, seen(Verdict.ABORT), 30.0)
    assert (held.proposes, worse.proposes) == (Verdict.HOLD, Verdict.ABORT)
    assert after(worse, seen(Verdict.HOLD), 40.0) == worse


def test_what_a_person_promoted_automation_proposes_to_undo_once() -> None:
    """It says so in the history and touches nothing; the next stage is its own again."""
    mine = steps.promote(START, 10.0, 1, "anna", "I have looked").rollout
    assert (mine.stage, mine.by_person, mine.state) == (1, True, State.RUNNING)
    taken = steps.step(mine, seen(Verdict.ABORT), 20.0, 2)
    assert taken is not None
    assert (taken.rollout.state, taken.rollout.weight) == (State.RUNNING, 500)
    assert "would abort it: ttft says abort" in taken.change.says
    assert steps.step(taken.rollout, seen(Verdict.ABORT), 30.0, 3) is None
    assert steps.step(taken.rollout, seen(Verdict.HOLD), 30.0, 3) is None
    onwards = after(taken.rollout, seen(Verdict.PROMOTE), 100.0)
    assert (onwards.stage, onwards.by_person, onwards.proposed) == (2, False, False)
    assert after(onwards, seen(Verdict.ABORT), 101.0).state is State.ABORTED


def test_with_a_guard_automation_aborts_after_a_person_too() -> None:
    """It was said beforehand, and on the screen when the person promoted."""
    mine = steps.promote(replace(START, guard=True), 10.0, 1, "anna", "go").rollout
    assert after(mine, seen(Verdict.ABORT), 11.0).state is State.ABORTED


def test_a_person_may_promote_what_is_held_or_frozen() -> None:
    """At once, without a proof; the last stage's promotion is the end."""
    for state in (State.HELD, State.FROZEN):
        assert steps.promote(replace(START, state=state), 1.0, 1, "anna", "override").rollout.state is State.RUNNING
    assert steps.promote(replace(START, stage=LAST), 1.0, 1, "anna", "enough").rollout.state is State.DONE


@pytest.mark.parametrize("state", [State.ABORTED, State.DONE])
@pytest.mark.parametrize("act", [steps.hold, steps.resume, steps.promote, steps.abort])
def test_over_is_over(state: State, act: Callable[[Rollout, float, int, str, str], Step]) -> None:
    """Neither a person nor automation changes it any more."""
    over = replace(START, state=state)
    with pytest.raises(Conflict, match="start another one"):
        act(over, 1.0, 1, "anna", "again")
    assert all(steps.step(over, seen(verdict), 9999.0, 1) is None for verdict in Verdict)


def test_what_is_so_already_is_a_conflict() -> None:
    """A second click, or another person's, is told that nothing was changed."""
    with pytest.raises(Conflict, match="it runs"):
        steps.resume(START, 1.0, 1, "anna", "go")
    with pytest.raises(Conflict, match="held already"):
        steps.hold(replace(START, state=State.HELD), 1.0, 1, "anna", "stop")


ACTS = (steps.hold, steps.resume, steps.promote, steps.abort)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(list(Verdict)), st.integers(0, 2), st.booleans(), st.floats(0.0, 5000.0)),
        st.tuples(st.sampled_from(ACTS), st.floats(0.0, 5000.0)),
    ),
    max_size=30,
)


@given(EVENTS, st.booleans())
def test_no_order_of_events_takes_more_than_a_stages_share(events: list[tuple[object, ...]], guard: bool) -> None:
    """Shares are the stage's or none or all at the end, stages never fall, changes follow one another, over is over."""
    rollout, now, number = replace(START, guard=guard), 0.0, 0
    for event in events:
        before, taken = rollout, None
        now += float(event[-1])  # type: ignore[arg-type]  # the last one is always a time
        if callable(event[0]):
            try:
                taken = event[0](rollout, now, number + 1, "anna", "why")
            except Conflict:
                continue
        else:
            verdict, ready, spent = Verdict(str(event[0])), int(str(event[1])), bool(event[2])
            taken = steps.step(rollout, seen(verdict, ready=ready, budget_spent=spent), now, number + 1)
        if taken is None:
            continue
        rollout, number = taken.rollout, taken.change.number
        assert (taken.change.state, taken.change.stage) == (rollout.state, rollout.stage)
        assert taken.change.says
        assert not before.state.is_over
        assert before.stage <= rollout.stage <= before.stage + 1
        live = rollout.stages[rollout.stage].weight
        assert rollout.weight == {State.ABORTED: 0, State.DONE: WEIGHT_TOTAL}.get(rollout.state, live)
        automated_end = taken.change.actor == "controller" and rollout.state is State.ABORTED
        assert not (automated_end and before.by_person and not guard)
    if not rollout.state.is_over:
        assert steps.abort(rollout, now, number + 1, "anna", "stop").rollout.weight == 0


HALF = Stage(name="half", weight=5000)
WATCHED = Stage(name="watched", weight=WEIGHT_TOTAL, watched=True)


def test_the_usual_stages_are_sound() -> None:
    """What a rollout goes through that names none."""
    steps.check(START)
    steps.check(replace(START, stages=(WATCHED,)))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"candidate": OLD}, "the incumbent itself"),
        ({"stages": ()}, "one stage at least"),
        ({"stages": (HALF, replace(HALF, weight=4999), WATCHED)}, "never fall"),
        ({"stages": (HALF, replace(HALF, weight=0), WATCHED)}, "above 0"),
        ({"stages": (replace(HALF, weight=-1), WATCHED)}, "above 0"),
        ({"stages": (replace(HALF, weight=0), WATCHED), "shadow": ShadowCaps(per_s=0.0)}, "by shadow copies alone"),
        ({"shadow": ShadowCaps(per_s=float("nan"))}, "rates are from 0"),
        ({"shadow": ShadowCaps(scored_per_s=-1.0)}, "rates are from 0"),
        ({"shadow": ShadowCaps(at_once=-1)}, "0 or more"),
        ({"shadow": ShadowCaps(tokens_per_s=float("inf"))}, "0 or more"),
        ({"stages": (replace(HALF, weight=10_001), WATCHED)}, "100 % at most"),
        ({"stages": (HALF,)}, "only the last stage is watched"),
        ({"stages": (WATCHED, WATCHED)}, "is watched, and it must be"),
        ({"stages": (replace(HALF, watched=True),)}, "100 % of the traffic"),
        ({"patience_s": float("nan")}, "seconds"),
        ({"patience_s": 1e308}, "seconds"),
        ({"stages": (*[HALF] * 100, WATCHED)}, "100 at most"),
        ({"stages": (replace(WATCHED, min_s=-1.0),)}, "seconds"),
    ],
)
def test_a_plan_that_can_t_be_is_refused_by_name(changes: dict[str, object], says: str) -> None:
    """Before anything is started."""
    with pytest.raises(InvalidField, match=says):
        steps.check(replace(START, **changes))  # type: ignore[arg-type]  # fields by name
