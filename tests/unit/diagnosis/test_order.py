"""Several causes at once: causes before their effects, then by the weakest link of their evidence."""

from dataclasses import replace

from penstock.diagnosis.evidence import Case
from penstock.diagnosis.verdict import judge
from tests.support.scenarios.diagnoses import GATEWAY_BOUND, NOISY, SATURATED, SLOW_CLIENTS, SLOW_ZONE, Look


def test_a_cause_comes_before_its_effect(look: Look) -> None:
    """A tenant that starves others saturates engines: it is the bottleneck, and they are said to be its effect."""
    verdict = judge(look(NOISY))
    assert [(one.judgement.case, one.effect_of) for one in verdict.findings] == [
        (Case.STARVED_TENANTS, None),
        (Case.ENGINE_SATURATED, Case.STARVED_TENANTS),
    ]


def test_the_stronger_evidence_comes_first(look: Look) -> None:
    """Of two causes that break a promise, the one further beyond its thresholds is the bottleneck."""
    both = replace(
        SATURATED,
        zones=SLOW_ZONE.zones,
        workers=tuple(replace(one, zone=zone) for one in SATURATED.workers for zone in ("z1", "z2")),
    )
    verdict = judge(look(both))
    assert [one.judgement.case for one in verdict.findings] == [Case.SLOW_ZONE, Case.ENGINE_SATURATED]
    strengths = [one.judgement.strength for one in verdict.findings]
    assert strengths == sorted(strengths, reverse=True)


def test_a_cause_without_a_broken_promise_comes_last(look: Look) -> None:
    """Slow readers that break no promise stand behind a gateway that breaks one, however strong their evidence."""
    verdict = judge(look(replace(GATEWAY_BOUND, paused_s=SLOW_CLIENTS.paused_s)))
    assert [one.judgement.case for one in verdict.findings] == [Case.GATEWAY_BOUND, Case.SLOW_CLIENTS]
    assert verdict.findings[1].at_stake == ()
