"""Checks a request that is to run later exactly as the gateway checks one that runs now, without admission.

Its alias leads to one version here, once: a rollout does not change what a job was accepted for. Its cost is an upper
bound, for fairness and for limits on what waits.
"""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.domain.clock import Clock
from penstock.domain.errors import BadRequest, BodyTooLarge, InvalidField
from penstock.domain.ids import RequestId, VersionId
from penstock.domain.money import MicroUsd
from penstock.domain.serving.request import Api, InferenceRequest
from penstock.domain.tenancy import service_tiers
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.admission.controller import bounded, check_sequences, within_context
from penstock.gateway.calls.call import Call, Progress, Timings
from penstock.gateway.openai.bounds import BodyBounds
from penstock.gateway.openai.exchange import check_region
from penstock.gateway.openai.parse import Parsed, check_bounded
from penstock.gateway.openai.reading import BodyReader
from penstock.gateway.pipeline import Chooser

UNNAMED = RequestId("")
"""A request that is only checked has no id: it reaches no record and no worker."""
LATER = {
    "stream": "the answer of a job is stored as a whole: leave this out",
    "background": "a job runs in the background anyway: leave this out",
    "store": "a job's answer is kept with the job, and never as a response: leave this out",
    "previous_response_id": "a job knows no earlier response: send the whole conversation as input",
}
"""Fields that make no sense without a caller that waits, and their remedies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A request that will be run: its model as asked, its version, the most tokens that it may take."""

    model: str
    version: VersionId
    cost_tokens: int
    cost_micro_usd: MicroUsd


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepting:
    reader: BodyReader
    chooser: Chooser
    bounds: Callable[[Principal], BodyBounds]
    clock: Clock
    region: str

    async def accept(self, who: Principal, api: Api, raw: bytes) -> Accepted:
        """Return what the request will run as; raises the ``BadRequest`` that the API itself would answer with."""
        bounds = self.bounds(who)
        if len(raw) > (most := bounds.body_bytes(api)):
            raise BodyTooLarge(f"the request is larger than {most} bytes")
        parsed, digest = await self.reader.read(who.tenant, api, raw, bounds)
        check(who, api, parsed, self.region)
        now = self.clock.monotonic()
        request = InferenceRequest(
            id=UNNAMED,
            api=api,
            model=parsed.model,
            body=parsed.body,
            stream=False,
            include_usage=False,
            cost=parsed.cost,
            arrived_at=now,
            digest=digest,
        )
        call = Call(request=request, principal=who, timings=Timings(self.clock.monotonic, now))
        chosen = await self.chooser.choose(Progress(call))
        run = within_context(bounded(chosen.request, who.plan.max_output_tokens), chosen)
        cost = chosen.chosen(chosen.version, chosen.prepared, request=run).cost
        check_sequences(cost, chosen.version)
        price = chosen.version.price.at(who.tier.price_factor)
        return Accepted(
            model=parsed.model,
            version=chosen.version.id,
            cost_tokens=cost.prompt_tokens + cost.output_tokens,
            cost_micro_usd=price.of(prompt=cost.prompt_tokens, cached=0, output=cost.output_tokens),
        )


def check(who: Principal, api: Api, parsed: Parsed, region: str) -> None:
    """Raise the refusal of what the API's exchange checks beside its parser, and of what needs a waiting caller."""
    for name, remedy in LATER.items():
        if parsed.body.get(name):
            raise InvalidField(remedy, param=name)
    check_bounded(api, parsed.cost)
    service_tiers.served(who, parsed.service_tier)
    if parsed.geo:
        check_region(parsed.geo, region)


def inside(error: BadRequest, field: str) -> BadRequest:
    """Return the refusal of a request inside another body, with the whole path of its field."""
    error.param = f"{field}.{error.param}" if error.param else field
    return error
