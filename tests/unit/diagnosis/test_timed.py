"""What holds now comes before what held earlier, and each says when."""

from dataclasses import replace

from penstock.diagnosis.cases import unhealthy_version
from penstock.diagnosis.evidence import Case
from penstock.diagnosis.verdict import Word, judge, timed
from penstock.domain.fleet.worker import WorkerEnd
from penstock.domain.outcome import Outcome
from penstock.views import diagnosis as views
from tests.support.monitoring.measurements import Site, Tenant, Worker
from tests.support.scenarios.diagnoses import (
    COLD_START,
    GATEWAY_BOUND,
    HEALTHY,
    NOISY,
    SATURATED,
    VERSION,
    WORKER_LOST,
    Look,
)


def test_what_holds_now_comes_first(look: Look) -> None:
    """A fault that ended minutes ago stands behind the one that holds, however strong its evidence was."""
    found = timed(judge(look(SATURATED)), judge(look(GATEWAY_BOUND)), lambda _: 120.0)
    assert [(one.judgement.case, one.ended_s) for one in found.findings] == [
        (Case.ENGINE_SATURATED, 0.0),
        (Case.GATEWAY_BOUND, 120.0),
    ]
    assert (found.word, found.bottleneck) == (Word.BOTTLENECK, Case.ENGINE_SATURATED)
    assert [views._when(one) for one in found.findings] == ["now", "ended about 2 min ago"]


def test_a_fault_that_is_over_is_told_as_such(look: Look) -> None:
    """With nothing wrong now, the last fault is named with its end."""
    found = timed(judge(look(HEALTHY)), judge(look(SATURATED)), lambda _: 60.0)
    assert [(one.judgement.case, one.ended_s) for one in found.findings] == [(Case.ENGINE_SATURATED, 60.0)]
    assert not {one.case for one in found.ruled_out} & {Case.ENGINE_SATURATED}


def test_a_cause_that_is_over_comes_before_its_effects(look: Look) -> None:
    """An effect that lasted longer than its cause is not named first: nothing is to be done about it."""
    (cause, *_), (effect, *_) = (judge(look(one)).findings for one in (WORKER_LOST, SATURATED))
    both = (cause, replace(effect, effect_of=Case.LOST_WORKER))
    whole = replace(judge(look(WORKER_LOST)), findings=both)
    found = timed(judge(look(HEALTHY)), whole, lambda case: 240.0 if case is Case.LOST_WORKER else 60.0)
    assert [one.judgement.case for one in found.findings] == [Case.LOST_WORKER, Case.ENGINE_SATURATED]


def test_a_loud_tenant_stands_in_the_command(look: Look) -> None:
    """The tenant with most of all waiting requests is named, and its name stands in what to type."""
    tenants = {"acme": Tenant(requests=300, wait_s=5.0), "beta": Tenant(requests=20, wait_s=0.4)}
    found = judge(look(replace(SATURATED, tenants=tenants))).findings
    (finding,) = [one for one in found if one.judgement.case == Case.ENGINE_SATURATED]
    assert "acme has" in finding.judgement.says
    assert finding.judgement.remedies[0].command == "penstock tenants plan acme max_concurrent=16"
    assert not any("TENANT" in one.command for one in finding.judgement.remedies)


def test_a_tenant_that_was_served_beside_a_flood_is_not_blamed(look: Look) -> None:
    """A flood that waits has had little service yet: the tenant with most of it is no noisy neighbour."""
    tenants = {"loud": Tenant(requests=20, wait_s=25.0), "shop": Tenant(requests=200, wait_s=1.0)}
    found = judge(look(replace(NOISY, tenants=tenants))).findings
    assert Case.STARVED_TENANTS not in [one.judgement.case for one in found]


def test_a_lost_worker_is_no_cold_start(look: Look) -> None:
    """A worker that went silent and was replaced is named with its last word and its log, and is no cold start."""
    assert judge(look(COLD_START)).bottleneck is Case.COLD_START
    verdict = judge(look(WORKER_LOST))
    assert verdict.bottleneck is Case.LOST_WORKER
    assert Case.COLD_START in {one.case for one in verdict.ruled_out}
    lost = verdict.findings[0].judgement
    worker = f"{VERSION}-lost"
    assert lost.subject == worker
    assert lost.says.startswith(f"Worker {worker} of {VERSION} went silent: it was killed")
    assert lost.remedies[0].command == f"penstock logs worker-{worker} -n 20"
    assert lost.remedies[-1].command == f"penstock models scale {VERSION} N"


def test_an_engine_that_was_lost_once_is_named_by_its_worker(look: Look) -> None:
    """Once is an accident and no unhealthy version; the engine's own log has the reason."""
    site = Site(workers=(Worker(restarts=1),), failed={Outcome.BROKEN_STREAM: 9})
    (finding,) = [one for one in judge(look(site)).findings if one.effect_of is None]
    assert finding.judgement.case is Case.LOST_WORKER
    assert finding.judgement.subject == "w0"
    assert finding.judgement.remedies[0].command == "penstock logs engine-w0 -n 20"


def test_a_fault_of_no_single_minute_has_no_end(look: Look) -> None:
    """Of a platform that is younger than the window it was said to have ended before the platform began."""
    found = timed(judge(look(HEALTHY)), judge(look(SATURATED)), lambda _: None)
    (finding,) = found.findings
    assert views._when(finding) == "over the whole window, in no single minute of it"


def test_killed_workers_come_before_the_signs_of_their_version(look: Look) -> None:
    """Workers that went silent twice are no fault of their version, whatever gateways saw of it."""
    site = Site(workers=(Worker(), Worker()), lost={WorkerEnd.LOST: 3}, failed={Outcome.BROKEN_STREAM: 20})
    found = [(one.judgement.case, one.effect_of) for one in judge(look(site)).findings]
    assert found[:2] == [(Case.LOST_WORKER, None), (Case.UNHEALTHY_VERSION, Case.LOST_WORKER)]


def test_a_version_whose_engines_die_comes_before_its_lost_workers(look: Look) -> None:
    """Engines that die again and again are the cause of workers that gave up."""
    site = Site(
        workers=(Worker(restarts=3), Worker(restarts=2)),
        lost={WorkerEnd.GAVE_UP: 1},
        failed={Outcome.BROKEN_STREAM: 20},
    )
    found = {one.judgement.case: one.effect_of for one in judge(look(site)).findings}
    assert (found[Case.UNHEALTHY_VERSION], found[Case.LOST_WORKER]) == (None, Case.UNHEALTHY_VERSION)


def test_the_only_worker_is_not_to_be_restarted(look: Look) -> None:
    """A rolling restart needs a second worker that serves meanwhile."""
    for number, is_told in ((1, False), (2, True)):
        found = unhealthy_version.judge(look(Site(workers=(Worker(restarts=3),) * number)))
        assert any("restart workers" in one.command for one in found.remedies) is is_told
