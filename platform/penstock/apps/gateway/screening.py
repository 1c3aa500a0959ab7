"""The safety stage: the packs in force, and interventions in the spool."""

from penstock.apps.gateway.shared import Shared
from penstock.filters.intervention import MOST, Intervention
from penstock.filters.pack import Policy
from penstock.gateway.calls.call import Admitted
from penstock.gateway.safety.judging import Match
from penstock.gateway.safety.stage import ScreenedRequests


def screening(shared: Shared) -> ScreenedRequests:
    def policy(call: Admitted) -> Policy:
        return shared.packs.policy(call.version.safety, call.principal.plan.safety)

    def record(call: Admitted, match: Match) -> None:
        if match.number < MOST:
            shared.accounting.spool.filtered(_intervention(call, match, shared.clock.now()))

    return ScreenedRequests(policy, record)


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
