"""The safety stage: the packs in force, and interventions in the spool."""

import secrets

from penstock.apps.gateway.shared import Shared
from penstock.domain.tenancy.tenant import JUDGES
from penstock.filters.intervention import MOST, Intervention
from penstock.filters.pack import Action, AtBound, Policy, Where
from penstock.gateway.calls.call import Admitted
from penstock.gateway.safety.confirming import Ask, Confirming, Verdict
from penstock.gateway.safety.judging import Held, Match
from penstock.gateway.safety.stage import ScreenedRequests
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics, begin_at_zero
from penstock.telemetry.tenants import OTHER

_ID_BYTES = 12
MOST_RULES = 100
"""Rules with series of their own; a pack of phrases has one rule for many."""


class _Counted:
    def __init__(self, metrics: Metrics) -> None:
        self._interventions = metrics.counter(names.INTERVENTIONS)
        begin_at_zero(self._interventions, (OTHER,), Where, Action)
        self._seconds, self._events = metrics.histogram(names.HOLD_SECONDS), metrics.histogram(names.HELD_EVENTS)
        self._bounds = metrics.counter(names.HOLD_BOUNDS_MET)
        begin_at_zero(self._bounds, AtBound)
        self._verdicts = metrics.counter(names.JUDGE_VERDICTS)
        begin_at_zero(self._verdicts, Verdict)
        self._judge_seconds = metrics.histogram(names.JUDGE_SECONDS)
        self._rules: set[str] = set()

    def matched(self, match: Match) -> None:
        rule = f"{match.applied.pack.partition('@')[0]}/{match.applied.rule.name}"
        if len(self._rules) < MOST_RULES:
            self._rules.add(rule)
        self._interventions.labels(rule if rule in self._rules else OTHER, match.stage, match.action).inc()

    def judged(self, verdict: Verdict, seconds: float) -> None:
        self._verdicts.labels(verdict).inc()
        self._judge_seconds.observe(seconds)

    def held(self, held: Held) -> None:
        self._seconds.observe(held.seconds)
        self._events.observe(held.events)
        if held.bound is not None:
            self._bounds.labels(held.bound).inc()


def screening(shared: Shared, ask: Ask) -> ScreenedRequests:
    counted = _Counted(shared.metrics)

    def policy(call: Admitted) -> Policy:
        if call.principal.tenant == JUDGES:
            return Policy()
        return shared.packs.policy(call.version.safety, call.principal.plan.safety)

    def record(call: Admitted, match: Match) -> None:
        counted.matched(match)
        if match.number < MOST:
            shared.accounting.spool.filtered(_intervention(call, match, shared.clock.now()))

    confirming = Confirming(
        ask=ask, ids=lambda: f"judge-{secrets.token_hex(_ID_BYTES)}", clock=shared.clock, tell=counted.judged
    )
    return ScreenedRequests(policy, record, confirming, counted.held)


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
