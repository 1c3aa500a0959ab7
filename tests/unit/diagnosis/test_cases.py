"""Each case is found where it is, and ruled out by its own evidence where something else only looks like it."""

import pytest

from penstock.diagnosis.cases import CASES
from penstock.diagnosis.evidence import Case, Judgement, State
from penstock.diagnosis.snapshot import Snapshot, VersionFigures, WorkerFigures
from penstock.diagnosis.verdict import Word, judge
from tests.support.scenarios.diagnoses import HEALTHY, SITUATIONS, Look
from tests.support.scenarios.neighbours import NEIGHBOURS, Neighbour


def judged(snapshot: Snapshot, case: Case) -> Judgement:
    return next(one for one in (rule(snapshot) for rule in CASES) if one.case is case)


def test_every_case_has_a_rule_a_situation_and_a_neighbour() -> None:
    """No case is without a rule, a situation that shows it, or one that only looks like it."""
    assert {rule(Snapshot(seconds=1.0)).case for rule in CASES} == set(Case) == set(SITUATIONS)
    assert {one.case for one in NEIGHBOURS} == set(Case)


@pytest.mark.parametrize("case", SITUATIONS)
def test_a_situation_is_named(look: Look, case: Case) -> None:
    """The bottleneck of each situation is its case, with a promise at stake and something to do."""
    verdict = judge(look(SITUATIONS[case]))
    assert verdict.bottleneck is case
    assert verdict.findings[0].at_stake
    assert verdict.findings[0].judgement.remedies


@pytest.mark.parametrize("neighbour", NEIGHBOURS, ids=lambda one: f"{one.case}: {one.because}")
def test_a_neighbour_is_ruled_out(look: Look, neighbour: Neighbour) -> None:
    """What only looks like a case is ruled out by a value that is known."""
    one = judged(look(neighbour.site), neighbour.case)
    assert one.state is State.RULED_OUT
    assert all(check.value is not None for check in one.failing)


def test_nothing_wrong_is_said_so(look: Look) -> None:
    """Where every promise is kept there is no bottleneck, and every case is ruled out."""
    verdict = judge(look(HEALTHY))
    assert verdict.word is Word.HEALTHY
    assert [verdict.findings, verdict.undecided, verdict.missed] == [(), (), ()]


def test_of_nothing_nothing_is_said() -> None:
    """Without any measurement every case is open, and none is ruled out."""
    verdict = judge(Snapshot(seconds=60.0))
    assert verdict.word is Word.UNKNOWN
    assert (verdict.findings, verdict.ruled_out) == ((), ())
    assert {one.case for one in verdict.undecided} == set(Case)


@pytest.mark.parametrize(
    ("other", "command"),
    [
        (WorkerFigures(name="w2", version="toy@2", zone=""), "penstock aliases set ALIAS toy@2"),
        (WorkerFigures(name="w2", version="toy@2", zone="", restarts=3.0), ""),
        (WorkerFigures(name="w2", version="else@2", zone=""), ""),
        (None, ""),
    ],
)
def test_nobody_is_sent_to_a_version_that_is_not_there(other: WorkerFigures | None, command: str) -> None:
    """Callers go to another version of the same model where one runs and is well; else what to do then is said."""
    sick = WorkerFigures(name="w1", version="toy@1", zone="", restarts=9.0)
    one = judged(Snapshot(seconds=60.0, workers=(sick, other) if other else (sick,)), Case.UNHEALTHY_VERSION)
    assert one.subject == "toy@1"
    assert [remedy.command for remedy in one.remedies if "aliases" in remedy.command] == ([command] if command else [])
    assert any(remedy.command.startswith("penstock models push") for remedy in one.remedies) == (not command)


def test_nobody_is_sent_to_a_version_that_is_scaled_to_nothing() -> None:
    """A version whose last worker has just ended, after a rollout that was aborted, is no way out."""
    sick, gone = (
        WorkerFigures(name=name, version=f"toy@{name}", zone="", restarts=n) for name, n in (("1", 9), ("2", 0))
    )
    versions = (VersionFigures(version="toy@1", wanted=1.0), VersionFigures(version="toy@2", wanted=0.02))
    one = judged(Snapshot(seconds=60.0, workers=(sick, gone), versions=versions), Case.UNHEALTHY_VERSION)
    assert not any("aliases" in remedy.command for remedy in one.remedies)
