"""Adds the service tier, and the region if the request named one, to an answer in its API's own field. Pure.

The engine's bytes are edited at marks that can only be structure: inside JSON text their quotes would be escaped.
"""

from collections.abc import Callable
from functools import lru_cache, partial

import msgspec

from penstock.domain.serving.request import Api
from penstock.domain.tenancy.service_tiers import FIELD, told_in_messages
from penstock.domain.tenancy.tenant import TierName
from penstock.gateway.calls.call import Call

Edit = Callable[[bytes], bytes]
HEADER = b"x-penstock-service-tier"
_CHUNKS = {Api.CHAT: b'"object":"chat.completion.chunk"', Api.COMPLETIONS: b'"object":"text_completion"'}
_UNNAMED = b'"service_tier":null'
_AUTO = b'"service_tier":"auto","status":'
"""vLLM's own value in a response object, and the field after it."""
_BEGUN, _USAGE = b"event: message_start", b'"usage":{'
MOST_REMEMBERED = 64
"""APIs times tiers, streamed or not."""


def is_told(call: Call) -> bool:
    """The request names a tier, or the plan's is not the default."""
    return call.principal.tier.name is not TierName.DEFAULT or call.request.body.get(FIELD) is not None


def naming(call: Call) -> Edit | None:
    """Edits a whole body, or a stream's whole events; None if nothing is added."""
    request = call.request
    always = request.api is Api.MESSAGES or request.api is Api.RESPONSES
    if not (always or is_told(call)):
        return None
    return _edit(request.api, call.principal.tier.name, request.geo, is_stream=request.stream)


@lru_cache(MOST_REMEMBERED)
def _edit(api: Api, tier: TierName, geo: str, *, is_stream: bool) -> Edit | None:
    named = b'"service_tier":"%b"' % tier.encode()
    if api is Api.MESSAGES:
        usage = b'"usage":{"service_tier":"%b",' % told_in_messages(tier).encode()
        usage += b'"inference_geo":%b,' % msgspec.json.encode(geo) if geo else b""
        return partial(_in_first_event if is_stream else _in_last_object, usage)
    if api is Api.RESPONSES:
        return partial(_replaced, _AUTO, named + _AUTO[len(b'"service_tier":"auto"') :])
    if api not in _CHUNKS:
        return None
    if not is_stream:
        return partial(_last_replaced, _UNNAMED, named)
    return partial(_replaced, _CHUNKS[api], _CHUNKS[api] + b"," + named)


def _replaced(mark: bytes, by: bytes, data: bytes) -> bytes:
    return data.replace(mark, by)


def _last_replaced(mark: bytes, by: bytes, data: bytes) -> bytes:
    before, found, after = data.rpartition(mark)
    return before + by + after if found else data


def _in_first_event(usage: bytes, data: bytes) -> bytes:
    return data.replace(_USAGE, usage, 1) if data.startswith(_BEGUN) else data


def _in_last_object(usage: bytes, data: bytes) -> bytes:
    return _last_replaced(_USAGE, usage, data)
