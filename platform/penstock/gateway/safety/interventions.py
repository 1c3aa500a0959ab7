"""Interventions of the safety stage: counted by rule, and recorded up to a number of each request."""

from collections.abc import Callable

from penstock.filters.intervention import MOST, Intervention
from penstock.filters.pack import Action, AtBound, Where
from penstock.gateway.calls.call import Admitted
from penstock.gateway.safety.confirming import Confirmation
from penstock.gateway.safety.judging import Held, Match
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics, begin_at_zero
from penstock.telemetry.tenants import OTHER

MOST_RULES = 100
"""Rules with series of their own; a pack of phrases has one rule for many."""


class Interventions:
    def __init__(self, metrics: Metrics, keep: Callable[[Intervention], object], now: Callable[[], float]) -> None:
        self._keep, self._now = keep, now
        self._interventions = metrics.counter(names.INTERVENTIONS)
        begin_at_zero(self._interventions, (OTHER,), Where, Action)
        self._seconds, self._events = metrics.histogram(names.HOLD_SECONDS), metrics.histogram(names.HELD_EVENTS)
        self._bounds = metrics.counter(names.HOLD_BOUNDS_MET)
        begin_at_zero(self._bounds, AtBound)
        self._verdicts = metrics.counter(names.JUDGE_VERDICTS)
        begin_at_zero(self._verdicts, Confirmation)
        self._judge_seconds = metrics.histogram(names.JUDGE_SECONDS)
        self._rules: set[str] = set()

    def record(self, call: Admitted, match: Match) -> None:
        rule = f"{match.applied.pack.partition('@')[0]}/{match.applied.rule.name}"
        if len(self._rules) < MOST_RULES:
            self._rules.add(rule)
        self._interventions.labels(rule if rule in self._rules else OTHER, match.stage, match.action).inc()
        if match.number < MOST:
            self._keep(_intervention(call, match, self._now()))

    def judged(self, verdict: Confirmation, seconds: float) -> None:
        self._verdicts.labels(verdict).inc()
        self._judge_seconds.observe(seconds)

    def held(self, held: Held) -> None:
        self._seconds.observe(held.seconds)
        self._events.observe(held.events)
        if held.bound is not None:
            self._bounds.labels(held.bound).inc()


def _intervention(call: Admitted, match: Match, at: float) -> Intervention:
    return Intervention(
        request=call.request.id,
        number=match.number,
        tenant=call.principal.tenant,
        version=call.version.id,
        pack=match.applied.pack,
        digest=match.applied.digest,
        rule=match.applied.rule.name,
        stage=match.stage,
        action=match.action,
        wanted=match.applied.wanted,
        position=match.position,
        at=at,
    )
