"""A rollout's route: who answers, and who stands in for whom."""

from dataclasses import replace

import pytest

from penstock.domain.ids import NO_VERSION, Alias, VersionId
from penstock.domain.rollout.rollout import STAGES, Blast, Rollout, State, route_of, shadow_of

OLD, NEW = VersionId("toy@0123456789ab"), VersionId("toy@ba9876543210")
SHARED = STAGES[1:]
"""Those in which callers have the candidate's answers."""
ROLLOUT = Rollout(id="r1", alias=Alias("toy"), incumbent=OLD, candidate=NEW, stages=SHARED)


@pytest.mark.parametrize("state", [State.RUNNING, State.HELD, State.FROZEN])
@pytest.mark.parametrize("stage", range(len(SHARED)))
def test_the_incumbent_stands_in_while_the_candidate_has_a_share(state: State, stage: int) -> None:
    """In every state that lives and at every stage, watched ones included, where it has no share of its own."""
    assert route_of(replace(ROLLOUT, state=state, stage=stage)).fallback == OLD


@pytest.mark.parametrize("state", [State.RUNNING, State.HELD, State.FROZEN])
@pytest.mark.parametrize("stage", range(len(SHARED)))
def test_who_stays_out_and_who_goes_first_does_so_at_each_stage(state: State, stage: int) -> None:
    """Whatever the share is, until it is over; a tenant that was named twice, or on both sides, is there once."""
    blast = Blast(out=("careful", "shy", "careful"), first=("bold", "shy"))
    found = route_of(replace(ROLLOUT, state=state, stage=stage, blast=blast)).overrides
    assert [(one.tenant, one.version) for one in found] == [("bold", NEW), ("careful", OLD), ("shy", OLD)]


def test_nobody_has_an_override_where_there_is_one_version() -> None:
    """Before the first share, and when it is over, everybody has the one that there is."""
    named = replace(ROLLOUT, blast=Blast(out=("careful",), first=("bold",)))
    shadow = replace(named, stages=STAGES)
    over = [replace(named, state=state) for state in (State.ABORTED, State.DONE)]
    assert [route_of(one).overrides for one in (shadow, *over)] == [()] * 3


def test_nobody_stands_in_where_there_is_one_version() -> None:
    """Before the first share, and when it is over."""
    shadow = replace(ROLLOUT, stages=STAGES)
    over = [replace(ROLLOUT, state=state) for state in (State.ABORTED, State.DONE)]
    assert [route_of(one).fallback for one in (shadow, *over)] == [NO_VERSION] * 3


@pytest.mark.parametrize(("state", "copies"), [(state, state in {State.RUNNING, State.HELD}) for state in State])
def test_what_is_held_is_copied_to_as_what_runs(state: State, copies: bool) -> None:
    """A slow candidate that is held in shadow has nothing but copies that could prove it worse."""
    assert (shadow_of(replace(ROLLOUT, stages=STAGES, state=state)) is not None) is copies
