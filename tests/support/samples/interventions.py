"""Interventions of filters for tests."""

from penstock.domain.ids import RequestId, TenantId, VersionId
from penstock.filters.intervention import Intervention
from penstock.filters.pack import Action, Where


def intervention(
    request: str = "r1", number: int = 0, *, tenant: str = "acme", rule: str = "jwt", at: float = 5.0
) -> Intervention:
    return Intervention(
        request=RequestId(request),
        number=number,
        tenant=TenantId(tenant),
        version=VersionId("m@1"),
        pack="secrets@1",
        digest="d" * 64,
        rule=rule,
        stage=Where.OUTPUT,
        action=Action.BLOCK,
        wanted=Action.BLOCK,
        position=17,
        at=at,
    )
