"""Selects the answered requests that may be copied, and makes a request's copy. Pure.

A copy has the same body, is sent to a pinned version and is the platform's own request: without the caller's key,
session, idempotency key and trace. The caller's cache salt stays, so that tenants' prefix caches stay apart.
"""

from dataclasses import replace
from enum import StrEnum

from penstock.domain.fleet.table import VersionEntry
from penstock.domain.ids import KeyId, RequestId
from penstock.domain.money import FREE
from penstock.domain.outcome import Outcome
from penstock.domain.serving.request import InferenceRequest
from penstock.domain.serving.shadow import Copy, Shadow
from penstock.domain.tenancy.tenant import SHADOWS, Plan, Principal, Role
from penstock.gateway.calls.call import Answer, Call

MOST_BYTES = 1 << 20
"""Bytes of a body: larger ones are not kept in memory after their caller's answer."""
_ACTING = ("tools", "functions", "tool_choice", "mcp_servers", "web_search_options")
"""Fields that let an answer ask for actions, which a copy might cause too."""


_ACTORS = ("tool", "function")
_ACTS = ("function_call", "function_call_output", "mcp_call", "tool_use", "tool_result")


class Left(StrEnum):
    ACTING = "acting"
    """The answer may lead to actions."""
    LARGE = "large"
    TENANT = "tenant"
    """The tenant opted out, stays out of this rollout, or is none of the candidate's tenants."""
    CAPS = "caps"
    FILLED = "filled"
    """The candidate is as busy as the incumbent."""
    UNABLE = "unable"
    """The other rule's model can't be asked, sleeps (copies wake no version), or such answers are not compared."""


def is_candidate(call: Call, answer: Answer, shadow: Shadow) -> bool:
    """Complete, undegraded, of another version, to a caller's request."""
    version = call.version
    is_others = version is not None and version.id != shadow.version and not call.fell_back_from
    return is_others and answer.outcome is Outcome.OK and call.copy is None and not call.degraded


def left_out(call: Call, shadow: Shadow, version: VersionEntry) -> Left | None:
    request, who = call.request, call.principal
    if not who.plan.copied or who.tenant in shadow.out or not who.sees(version.tenants):
        return Left.TENANT
    if _may_act(request):
        return Left.ACTING
    size = request.cost.body_bytes + (len(request.tensors.data) if request.tensors is not None else 0)
    return Left.LARGE if size > MOST_BYTES else None


def _may_act(request: InferenceRequest) -> bool:
    turns = request.body.get("messages") or request.body.get("input")
    said = [turn for turn in turns if isinstance(turn, dict)] if isinstance(turns, list) else []
    has_acted = any(turn.get("role") in _ACTORS or turn.get("tool_calls") or turn.get("type") in _ACTS for turn in said)
    return has_acted or any(request.body.get(name) for name in _ACTING)


def paid(call: Call, answer: Answer) -> int | None:
    """Return the price without cache discounts; None if the tokens are not known exactly."""
    usage, version = answer.usage, call.version
    if version is None or not usage.exact:
        return None
    return version.price.uncached(prompt=usage.prompt_tokens, output=usage.output_tokens)


def copied(
    call: Call, version: VersionEntry, request: RequestId, now: float, *, deadline_s: float = 0.0
) -> InferenceRequest:
    return replace(
        call.request,
        id=request,
        model=version.id,
        include_usage=False,
        arrived_at=now,
        deadline_s=deadline_s,
        traceparent="",
        caller_trace="",
        idempotency_key="",
        session="",
        price_cap=FREE,
    )


def salt_of(call: Call, note: Copy, request: RequestId) -> str:
    """The caller's, unless it could find the copy's prompt in the cache. A ballast copy has its own, so that the cache
    does not save its work; a comparison too, since its caller may name the compared model.
    """
    salt = call.principal.cache_salt
    if note.pair is not None:
        return f"{salt}-compared"
    return salt if note.is_evidence else f"{salt}-{request}"


def platform(salt: str, call: Call) -> Principal:
    """The platform's own, under the safety packs of the caller: filters end a copy as they would its original."""
    plan = Plan(safety=call.principal.plan.safety)
    return Principal(tenant=SHADOWS, key=KeyId(SHADOWS), role=Role.INFER, plan=plan, models=(), cache_salt=salt)
