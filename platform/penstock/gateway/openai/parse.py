"""Parses a body into a request: the only place that accepts or drops a client's field.

Served fields are listed in ``verdicts``. It knows no tenants, models or sockets.

A repeated key keeps its last value, and the engine gets the decoded object encoded again, so that no second parser can
read the bytes differently.
"""

from collections.abc import Mapping

import msgspec

from penstock.domain.errors import InvalidField, MalformedBody, UnsupportedField
from penstock.domain.serving.request import Api
from penstock.domain.tenancy import service_tiers
from penstock.domain.tenancy.cost import UNBOUNDED, Cost
from penstock.formats import pictures
from penstock.gateway.openai import bounds, documented, fields, rules, tool_results, tools
from penstock.gateway.openai.bounds import BodyBounds
from penstock.gateway.openai.depth import MAX_DEPTH, is_too_deep
from penstock.gateway.openai.fields import Body

MAX_MESSAGES = 4096
MAX_PROMPTS = 2048
MAX_MODEL_CHARS = 256
MAX_SEQUENCES = 128
MAX_NAME_CHARS = 256
"""Characters of a cache key or a region: beyond OpenAI's 64, and quick to hash."""
CACHE_KEY, GEO = "prompt_cache_key", "inference_geo"
STORE, BACKGROUND, PREVIOUS = "store", "background", "previous_response_id"
"""Fields of stored responses: read in front of the pipeline, and sent to no engine."""
PLATFORMS = frozenset({service_tiers.FIELD, CACHE_KEY, GEO})
"""Fields that the gateway handles: no engine gets them."""
MAX_OUTPUT_TOKENS = 1 << 20

OUTPUT_FIELDS: Mapping[Api, tuple[str, ...]] = {
    Api.CHAT: ("max_completion_tokens", "max_tokens"),
    Api.COMPLETIONS: ("max_tokens",),
    Api.EMBEDDINGS: (),
    Api.CLASSIFY: (),
    Api.RESPONSES: ("max_output_tokens",),
    Api.MESSAGES: ("max_tokens",),
}
"""Fields that bound the output of one sequence, in order of precedence."""

COMPLETIONS_DEFAULT = 16
"""The default output bound of a completions request in vLLM and OpenAI's API."""

COUNTS: Mapping[str, Api] = {
    f"{Api.MESSAGES}/count_tokens": Api.MESSAGES,
    f"{Api.RESPONSES}/input_tokens": Api.RESPONSES,
}
"""Paths of token count requests, and their APIs."""

_WITH_CHOICES = frozenset({Api.CHAT, Api.COMPLETIONS})
"""APIs with ``n`` and ``best_of``; in others the engine ignores them."""

_WITH_IMAGES = frozenset({Api.CLASSIFY, Api.EMBEDDINGS})
"""APIs with inputs that may be images, for models with a handler; for other models they are text."""

_DECODER = msgspec.json.Decoder()

ANY = BodyBounds()


class Parsed(msgspec.Struct, frozen=True, gc=False):
    """``cost`` needs no model; ``told`` are fields without effect."""

    body: Body
    model: str
    stream: bool
    include_usage: bool
    cost: Cost
    service_tier: str = ""
    told: tuple[str, ...] = ()
    cache_key: str = ""
    geo: str = ""
    usage_each: bool = False


def parse(api: Api, raw: bytes, within: BodyBounds = ANY) -> Parsed:
    body = decode(raw)
    bounds.check(body, within)  # first: what it refuses is too much to be walked
    loose = tools.check(body) if "tools" in body else ()
    told = documented.check(api, body) + loose + rules.check(api, body)
    model = fields.text(body, "model", max_chars=MAX_MODEL_CHARS)
    stream = fields.flag(body, "stream")
    (usage, each), cost = _usage_in_stream(body, stream=stream), _cost(api, body, len(raw))
    if not body.keys() & PLATFORMS:
        return Parsed(body, model, stream, usage, cost, "", told, usage_each=each)
    tier = str(body.get(service_tiers.FIELD, ""))
    key, geo = (_name(body, name) for name in (CACHE_KEY, GEO))
    return Parsed(body, model, stream, usage, cost, tier, told, key, geo, each)


def _name(body: Body, field: str) -> str:
    return fields.text(body, field, max_chars=MAX_NAME_CHARS) if field in body else ""


def check_bounded(api: Api, cost: Cost) -> None:
    if api is Api.MESSAGES and cost.names_no_output:
        raise InvalidField("max_tokens is required", param="max_tokens")


def decode(raw: bytes) -> Body:
    """Return the JSON object, or raise ``MalformedBody``."""
    try:
        value = _DECODER.decode(raw)
    except (msgspec.DecodeError, ValueError) as error:  # ValueError: bytes that are no UTF-8, integers without end
        raise MalformedBody(f"the body is not valid JSON in UTF-8: {_where(error)}") from error
    except RecursionError as error:
        raise MalformedBody(f"the body is nested deeper than {MAX_DEPTH} levels") from error
    if type(value) is not dict:
        raise MalformedBody("the body must be a JSON object")
    # Counting brackets is cheap and bounds the depth from above; only suspicious bodies are walked.
    if is_too_deep(value, raw.count(b"{") + raw.count(b"[")):
        raise MalformedBody(f"the body is nested deeper than {MAX_DEPTH} levels")
    return value


def _where(error: Exception) -> str:
    return "bytes that are no UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)[:200]


def _input(api: Api, body: Body) -> int:
    if api is Api.CHAT or api is Api.MESSAGES:
        parts = fields.CHAT_PARTS if api is Api.CHAT else fields.MESSAGES_PARTS
        turns = fields.messages(body, "messages", most=MAX_MESSAGES, parts=parts)
        if api is Api.CHAT:
            tool_results.of_chat(turns)
        return 1
    if api is Api.COMPLETIONS:
        return fields.prompts(body, "prompt", most=MAX_PROMPTS)
    if api is Api.RESPONSES:
        return _responses_input(body)
    if body.get("input") is None and body.get("messages") is not None:
        fields.messages(body, "messages", most=MAX_MESSAGES)
        return 1
    return fields.prompts(body, "input", most=MAX_PROMPTS)


def _responses_input(body: Body) -> int:
    given = body.get("input")
    if type(given) is str:
        return 1
    if type(given) is not list or not given or any(type(item) is not dict for item in given):
        raise InvalidField("input is required and must be a string or a list of items", param="input")
    if len(given) > MAX_MESSAGES:
        raise InvalidField(f"input holds more than {MAX_MESSAGES} items", param="input")
    for number, item in enumerate(given):
        item.pop("encrypted_content", None)  # told, and refused by engines: OpenAI's has callers send it back
        content, role = item.get("content"), item.get("role")
        if type(content) is list and type(role) is str:
            fields.check_parts(content, fields.RESPONSES_PARTS.get(role), f"input[{number}].content")
    if body.get(PREVIOUS) is None:  # else they may answer calls that are stored: checked when both are joined
        tool_results.of_responses(given)
    return 1


def _cost(api: Api, body: Body, size: int) -> Cost:
    prompts = _input(api, body)
    sequences, each = prompts * _sequences(api, body), _per_sequence(api, body)
    images = _images(body) if api in _WITH_IMAGES else []
    return Cost(
        prompts=prompts,
        sequences=sequences,
        output_tokens=UNBOUNDED if each is None else each * sequences,
        body_bytes=size - sum(map(len, images)),
        scores_prompt=_scores_prompt(api, body),
        decode_tokens=sum(map(pictures.tokens_of_item, images)),
    )


def _images(body: Body) -> list[str]:
    given = body.get("input")
    inputs = given if type(given) is list else [given]
    return [one for one in inputs if type(one) is str and one.startswith(pictures.DATA_URL)]


def _scores_prompt(api: Api, body: Body) -> bool:
    """The engine returns the prompt's log probabilities, echoed or not."""
    if body.get("prompt_logprobs") is not None:
        return True
    return bool(body.get("echo")) and (api is Api.CHAT or body.get("logprobs") is not None)


def _sequences(api: Api, body: Body) -> int:
    """Return the number of answers per prompt; beams count like ``n``."""
    n = fields.whole(body, "n", low=1, high=MAX_SEQUENCES) or 1
    best_of = fields.whole(body, "best_of", low=1, high=MAX_SEQUENCES) or 1
    if body.get("best_of") is not None and best_of < n:
        raise InvalidField("best_of must not be less than n", param="best_of")
    if api not in _WITH_CHOICES:
        return 1
    if best_of > n:
        raise UnsupportedField(
            "best_of above n is not supported: ask for n answers with log probabilities, and choose", param="best_of"
        )
    return n


def _per_sequence(api: Api, body: Body) -> int | None:
    """Return None without a token limit.

    A completion that echoes its prompt may ask for no token; the engine generates one to read the prompt.
    """
    low = 0 if api is Api.COMPLETIONS and body.get("echo") is True else 1
    given = [fields.whole(body, name, low=low, high=MAX_OUTPUT_TOKENS) for name in OUTPUT_FIELDS[api]]
    first = next((value for value in given if value is not None), None)
    if first is not None:
        return max(1, first)
    if not api.generates:
        return 0
    return COMPLETIONS_DEFAULT if api is Api.COMPLETIONS else None


def _usage_in_stream(body: Body, *, stream: bool) -> tuple[bool, bool]:
    options = body.get("stream_options")
    if options is None:
        return False, False
    if type(options) is not dict:
        raise InvalidField("stream_options must be an object", param="stream_options")
    if not stream:
        raise InvalidField("stream_options is only for streams", param="stream_options")
    each = fields.flag(options, "continuous_usage_stats")
    return each or fields.flag(options, "include_usage"), each
