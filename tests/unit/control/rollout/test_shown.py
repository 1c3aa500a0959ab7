"""Rollouts as metrics: as Prometheus would read them."""

from dataclasses import replace

from penstock.control.rollout.shown import RolloutMetrics
from penstock.domain.ids import Alias, VersionId
from penstock.domain.rollout.judgement import Judgement, Verdict
from penstock.domain.rollout.rollout import Rollout, State
from penstock.telemetry.metrics import Metrics

ONE = Rollout(id="r1", alias=Alias("chat"), incumbent=VersionId("m@old"), candidate=VersionId("m@new"), stage=3)
UNFIT = Judgement(version=ONE.candidate, at=0.0, verdict=Verdict.WAIT, unfit="workers differ")


def read(metrics: Metrics) -> dict[str, float]:
    """Return the samples of rollouts by name and labels."""
    lines = metrics.exposition().decode().splitlines()
    samples = [line.rpartition(" ") for line in lines if line.startswith("penstock_rollout")]
    return {name: float(value) for name, _, value in samples if "_created" not in name}


def test_a_live_rollout_is_shown_whole() -> None:
    """Its state, share, the judge's fitness and what is proposed; its ends are there from the start, at 0."""
    metrics = Metrics()
    RolloutMetrics(metrics).show([replace(ONE, state=State.HELD, proposed=True)], {"r1": UNFIT})
    assert read(metrics) == {
        'penstock_rollouts{model="chat",state="running"}': 0.0,
        'penstock_rollouts{model="chat",state="held"}': 1.0,
        'penstock_rollouts{model="chat",state="frozen"}': 0.0,
        'penstock_rollout_share_ratio{model="chat"}': 0.25,
        'penstock_rollout_judge_unfit{model="chat"}': 1.0,
        'penstock_rollout_undo_proposed{model="chat"}': 1.0,
        'penstock_rollout_ends_total{model="chat",state="aborted"}': 0.0,
        'penstock_rollout_ends_total{model="chat",state="done"}': 0.0,
    }


def test_what_is_over_is_counted_and_shown_no_more() -> None:
    """Also where the next one of the alias has begun; who leads no more shows nothing but what it counted."""
    metrics = Metrics()
    shown = RolloutMetrics(metrics)
    assert shown.show([ONE], {}) == frozenset()
    assert shown.show([replace(ONE, id="r2")], {}) == {"r1"}
    shown.ended(replace(ONE, state=State.ABORTED))
    assert read(metrics)['penstock_rollouts{model="chat",state="running"}'] == 1.0
    assert shown.show([], {}) == {"r2"}
    shown.ended(replace(ONE, id="r2", state=State.DONE))
    ends = {
        'penstock_rollout_ends_total{model="chat",state="aborted"}': 1.0,
        'penstock_rollout_ends_total{model="chat",state="done"}': 1.0,
    }
    assert read(metrics) == ends
    shown.show([replace(ONE, id="r3")], {})
    shown.unknown()
    assert read(metrics) == ends
    assert shown.show([], {}) == frozenset()
