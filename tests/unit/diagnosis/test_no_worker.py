"""Where nobody is there to take a request: what is said of who is starting, who is not wanted and who is full."""

from dataclasses import replace

import pytest

from penstock.apps import slos
from penstock.diagnosis.cases import cold_start, engine_saturated, no_worker
from penstock.diagnosis.evidence import Case, State, checks_of
from penstock.diagnosis.measure import snapshot_of
from penstock.diagnosis.snapshot import WorkerFigures
from penstock.diagnosis.verdict import Word, judge
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.outcome import Outcome
from penstock.telemetry import names
from tests.support.monitoring.measurements import Site, Worker, recorded
from tests.support.scenarios.diagnoses import (
    BATCH_TOO_SMALL,
    COLD_START,
    HALF,
    HALF_FULL,
    SATURATED,
    SCALED_TO_NOTHING,
    SISTER,
    STARTING,
    VERSION,
    Look,
)

NOBODY_YET = Site(tenants={}, ttft_s={}, itl_s={}, workers=(STARTING,), failed={Outcome.NO_CAPACITY: 3})
"""A worker is loading all the while, and a few requests were all refused: too few for a share of any promise."""


def test_a_start_that_is_not_over_is_a_cold_start(look: Look) -> None:
    """A worker that is still loading is named with its state and for how long, and that none is ready is its effect."""
    verdict = judge(look(NOBODY_YET))
    assert [(one.judgement.case, one.effect_of) for one in verdict.findings] == [
        (Case.COLD_START, None),
        (Case.NO_WORKER, Case.COLD_START),
    ]
    assert verdict.bottleneck is Case.COLD_START
    (check,) = checks_of(verdict.findings[0].judgement.evidence[0])
    assert check.says == f"workers started, or are starting ({VERSION} is loading, for up to 60 s)"


def test_a_start_that_is_over_is_not_said_to_go_on(look: Look) -> None:
    """A worker that became ready in the window started, and is not called loading still."""
    one = cold_start.judge(look(replace(COLD_START, workers=(Worker(starts=1, starting={WorkerState.LOADING: 0.4}),))))
    assert (one.state, [check.says for check in checks_of(one.evidence[0])]) == (State.FOUND, ["workers started"])


def test_requests_that_waited_for_a_worker_found_none(look: Look) -> None:
    """Held requests are answered and none is refused: what they waited for is found by their number."""
    one, other = (cold_start.judge(look(replace(COLD_START, failed={}, held=number))) for number in (60, 0))
    assert (one.state, other.state) == (State.FOUND, State.RULED_OUT)


def test_a_version_scaled_to_nothing_is_named(look: Look) -> None:
    """Where an operator wants no worker and every request is refused, that is the cause, and scaling is what helps."""
    verdict = judge(look(SCALED_TO_NOTHING))
    assert verdict.bottleneck is Case.NO_WORKER
    found = verdict.findings[0].judgement
    assert found.says == "No worker is ready: the version is scaled to 0, and an alias or a caller still names it."
    assert [one.command for one in found.remedies] == [f"penstock models scale {VERSION} 1"]


def test_wanted_workers_that_are_not_there_are_looked_for(look: Look) -> None:
    """Where workers are wanted and none is ready, it is said of how many, and what tells why."""
    found = no_worker.judge(look(replace(SCALED_TO_NOTHING, wanted={VERSION: 2})))
    assert (found.state, found.says) == (State.FOUND, "No worker is ready of 2 deployed.")
    assert [one.command.split()[1] for one in found.remedies] == ["status", "logs"]


def test_a_start_is_no_cause_of_another_models_lack(look: Look) -> None:
    """A worker that starts for one model doesn't hide that another model is scaled to nothing."""
    elsewhere = replace(STARTING, version="else@000000000001")
    verdict = judge(look(replace(SCALED_TO_NOTHING, workers=(elsewhere,), wanted={VERSION: 0, elsewhere.version: 1})))
    assert verdict.bottleneck is Case.NO_WORKER
    assert verdict.findings[0].judgement.subject == VERSION
    assert verdict.findings[0].effect_of is None


def test_without_a_controller_workers_own_pages_tell_who_is_ready() -> None:
    """Where nobody scrapes the controller, how many are wanted stays unknown, and is said to be."""
    whole = recorded(replace(COLD_START, workers=(STARTING,)))
    gone = {names.WORKERS.name, names.WORKERS_WANTED.name}
    lacking = replace(whole, levels={name: found for name, found in whole.levels.items() if name not in gone})
    found = no_worker.judge(snapshot_of(lacking, slos.load().values()))
    assert (found.state, found.subject) == (State.FOUND, VERSION)
    assert found.says == "No worker is ready of an unknown number deployed."
    assert found.remedies[-1].command == f"penstock models scale {VERSION} N"


def test_an_alias_on_a_version_that_is_scaled_to_0_is_the_bottleneck(look: Look) -> None:
    """Callers that are sent to a version without workers are refused, although another version of the model serves."""
    site = Site(tenants={}, ttft_s={}, wanted={VERSION: 1, SISTER: 0}, called=SISTER, failed={Outcome.NO_CAPACITY: 60})
    verdict = judge(look(site))
    assert (verdict.bottleneck, verdict.findings[0].judgement.subject) == (Case.NO_WORKER, SISTER)


def test_a_version_without_callers_lacks_no_worker(look: Look) -> None:
    """Of a version that was scaled to 0 after a rollout nothing is said while another one's callers are refused."""
    site = Site(
        workers=(STARTING,), wanted={SISTER: 0.02, VERSION: 1}, called=VERSION, failed={Outcome.NO_CAPACITY: 60}
    )
    assert no_worker.judge(look(site)).subject == VERSION
    assert cold_start.judge(look(site)).subject == VERSION


def test_without_refusals_by_version_no_version_is_blamed() -> None:
    """If the version of the refused requests is unknown, the case is left open."""
    whole = recorded(SCALED_TO_NOTHING)
    increases = {name: found for name, found in whole.increases.items() if not name.startswith(names.NO_WORKER.name)}
    one = no_worker.judge(snapshot_of(replace(whole, increases=increases), slos.load().values()))
    assert (one.state, one.subject) == (State.UNDECIDED, "")


@pytest.mark.parametrize(
    ("starts", "starting_s", "begun"),
    [(0.0, 0.0, 0.0), (0.0, 9.0, 1.0), (None, 9.0, 1.0), (1.0, 9.0, 1.0), (2.0, None, 2.0), (0.0, None, None)],
)
def test_a_start_counts_once(starts: float | None, starting_s: float | None, begun: float | None) -> None:
    """A start counts from its beginning, once; none is counted as none only where the worker's state is known."""
    assert WorkerFigures(name="w", version="v", zone="", starts=starts, starting_s=starting_s).begun == begun


@pytest.mark.parametrize(
    "site",
    [
        replace(HALF_FULL, failed={Outcome.NO_CAPACITY: 60}, overloaded=60),
        replace(HALF_FULL, workers=(replace(HALF, queue_s=1.5),)),
    ],
    ids=["refused", "beyond the promise"],
)
def test_a_queue_before_half_used_slots_is_overload(look: Look, site: Site) -> None:
    """Where the door holds a queue, and refuses or keeps waiting too long, load is named whatever slots are used."""
    verdict = judge(look(site))
    assert verdict.bottleneck is Case.ENGINE_SATURATED
    told = verdict.findings[0].judgement
    assert "with 47% of the slots in use" in told.says
    assert "which of them is not measured" in told.says
    assert told.remedies[-1].command == f"penstock models scale {VERSION} 2"
    left = {one.case for one in verdict.undecided}
    assert Case.NO_WORKER not in left


def test_gpus_that_idle_are_no_overload(look: Look) -> None:
    """By the GPUs' own account the batch is too small, and refusals at the door do not make it load."""
    site = replace(BATCH_TOO_SMALL, failed={Outcome.NO_CAPACITY: 60}, overloaded=60)
    verdict = judge(look(site))
    assert verdict.bottleneck is Case.BATCH_TOO_SMALL
    assert engine_saturated.judge(look(site)).state is State.RULED_OUT


def test_nobody_is_told_to_run_fewer_workers(look: Look) -> None:
    """The number that is advised is one more than is wanted; where that is unknown it is left to the reader."""
    command = engine_saturated.judge(look(replace(SATURATED, wanted={VERSION: 3}))).remedies[-1].command
    assert command == f"penstock models scale {VERSION} 4"
    assert engine_saturated.judge(look(replace(SATURATED, wanted={}))).remedies[-1].command.endswith(" N")


def test_refusals_by_full_workers_are_no_cold_start(look: Look) -> None:
    """A worker that starts while others are full is no reason why those refuse."""
    one = cold_start.judge(look(replace(COLD_START, workers=(Worker(starts=1), Worker()), overloaded=60)))
    assert one.state is State.RULED_OUT


def test_requests_that_all_found_nobody_are_no_healthy_verdict(look: Look) -> None:
    """Of three requests that were all refused something is said."""
    assert judge(look(NOBODY_YET)).word is Word.BOTTLENECK


def test_a_version_that_was_wanted_for_a_part_of_the_time_is_said_to_be(look: Look) -> None:
    """An average of half a worker wanted is told as what it is: none for a part of the time."""
    said = no_worker.judge(look(replace(SCALED_TO_NOTHING, wanted={VERSION: 0.5}))).says
    assert said == "No worker is ready of 0.5 deployed; it was scaled to 0 for a part of the time."
