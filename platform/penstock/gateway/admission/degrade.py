"""Degrades a request instead of refusing it (C6): a cheaper answer under pressure, for tenants that opted in. Pure.

The plan's ``degrade_output_tokens`` caps the output, or its ``degrade_model`` answers.

Trade-off: an explicit ``max_tokens`` is a bound, so it is lowered; ``min_tokens`` is a contract.
"""

from collections.abc import Mapping
from dataclasses import replace

from penstock.domain.fleet.table import VersionEntry
from penstock.domain.models.model import Task
from penstock.domain.money import Price
from penstock.domain.serving.request import Api, InferenceRequest, Sealed
from penstock.domain.tenancy.tenant import Plan
from penstock.gateway.calls.wishes import is_structured, uses_tools

OUTPUT_FIELD: Mapping[Api, str] = {
    Api.CHAT: "max_completion_tokens",
    Api.COMPLETIONS: "max_tokens",
    Api.RESPONSES: "max_output_tokens",
    Api.MESSAGES: "max_tokens",
}
"""Each API's field for the output tokens of one sequence; it takes precedence over an older field of the same
meaning.
"""

_TOKEN_FIELDS = ("logit_bias", "stop_token_ids", "allowed_token_ids", "bad_words", "prompt_embeds")


def capped(request: InferenceRequest, plan: Plan) -> InferenceRequest | None:
    most = plan.degrade_output_tokens
    if not most or not request.api.generates or uses_tools(request.body) or is_structured(request.body):
        return None
    cost = request.cost
    if plan.max_output_tokens:
        most = min(most, plan.max_output_tokens // cost.sequences)
    least = request.body.get("min_tokens")
    if most < max(1, least if isinstance(least, int) else 0) or cost.output_each <= most:
        return None
    body = {**request.body, OUTPUT_FIELD[request.api]: most}
    return replace(request, body=body, cost=cost.with_output(most))


def may_move(request: InferenceRequest, wished: VersionEntry, smaller: VersionEntry) -> bool:
    if wished.id in (request.model, smaller.id) or smaller.task is not wished.task:
        return False
    if wished.task is not Task.GENERATE or not _is_no_dearer(smaller.price, wished.price):
        return False
    body = request.body
    if body.get("seed") is not None or uses_tools(body):
        return False
    return smaller.tokenizer_sha256 == wished.tokenizer_sha256 or not _speaks_in_tokens(body)


def _is_no_dearer(price: Price, than: Price) -> bool:
    return (
        price.prompt_per_mtok <= than.prompt_per_mtok
        and price.cached_per_mtok <= than.cached_per_mtok
        and price.output_per_mtok <= than.output_per_mtok
    )


def _speaks_in_tokens(body: Mapping[str, object]) -> bool:
    prompt = body.get("prompt")
    ids = isinstance(prompt, list) and any(not isinstance(one, str) for one in prompt)
    ids = not prompt.is_text if isinstance(prompt, Sealed) else ids
    return ids or any(body.get(name) is not None for name in _TOKEN_FIELDS)
