"""From bytes and headers to an ``InferenceRequest``: the one place where a client's word is taken or dropped.

It checks what the platform itself relies on and no more: sampling ranges, tools, schemas and the rest pass through
untouched, so that every feature of the engine stays reachable. It knows nothing of tenants, models or sockets.

JSON with a repeated key keeps the last value, and what goes on to the engine is the decoded object written anew:
there is no second parser that could read the same bytes in another way.
"""

import re
from collections.abc import Iterable, Mapping

import msgspec

from penstock.domain.errors import BadRequest, InvalidField, MalformedBody
from penstock.domain.request import Api
from penstock.gateway.edge import fields
from penstock.gateway.edge.fields import Body

MAX_DEPTH = 64
MAX_MESSAGES = 4096
MAX_PROMPTS = 2048
MAX_MODEL_CHARS = 256
MAX_SEQUENCES = 128
MAX_OUTPUT_TOKENS = 1 << 20
MAX_DEADLINE_S = 3600.0

STRIPPED = frozenset(
    """
    priority service_tier cache_salt request_id session_id data_parallel_rank
    kv_transfer_params ec_transfer_params vllm_xargs mm_payload return_mm_kwargs
    """.split()
)
"""Fields that claim identity, class or cache, or that reach into the engine's insides: dropped without a word (A4).

``user`` stays: it is the caller's own word for its end user, and nothing here reads it as an identity.
"""

REFUSED = {
    "prompt_embeds": "prompt_embeds is not accepted: send text or token ids",
    "chat_template": "chat_template is not accepted: the model version has its own",
    "previous_response_id": "responses are not stored: send the whole conversation as input",
}
"""Fields that would change the answer if they were dropped, and are not served."""

NUMBERS = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "length_penalty",
    "seed",
)

OUTPUT_FIELDS: Mapping[Api, tuple[str, ...]] = {
    Api.CHAT: ("max_completion_tokens", "max_tokens"),
    Api.COMPLETIONS: ("max_tokens",),
    Api.EMBEDDINGS: (),
    Api.RESPONSES: ("max_output_tokens",),
    Api.MESSAGES: ("max_tokens",),
}
"""What bounds the output of one sequence, the field that wins first."""

COMPLETIONS_DEFAULT = 16
"""The engine's (and OpenAI's) own bound where a completions request is silent."""

_CONTAINERS = (dict, list)
_DECODER = msgspec.json.Decoder()


class Parsed(msgspec.Struct, frozen=True, gc=False):
    """What a body says: ``max_output_tokens`` is the worst case over all sequences and prompts, 0 where silent."""

    body: Body
    model: str
    stream: bool
    include_usage: bool
    max_output_tokens: int


def parse(api: Api, raw: bytes) -> Parsed:
    """Return what the body asks for, or raise ``MalformedBody`` or ``InvalidField`` naming the field."""
    body = decode(raw)
    model = fields.text(body, "model", max_chars=MAX_MODEL_CHARS)
    for name in body.keys() & REFUSED.keys():
        if body[name] is not None:
            raise InvalidField(REFUSED[name], param=name)
    for name in body.keys() & STRIPPED:
        del body[name]
    for name in NUMBERS:
        if name in body:
            fields.number(body, name)
    stream = fields.flag(body, "stream")
    sequences = _input(api, body) * _sequences(body)
    return Parsed(body, model, stream, _include_usage(body, stream=stream), _per_sequence(api, body) * sequences)


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
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and _deeper_than(value, MAX_DEPTH):
        raise MalformedBody(f"the body is nested deeper than {MAX_DEPTH} levels")
    return value


def _where(error: Exception) -> str:
    """Say what the decoder said, without any of the caller's text."""
    return "bytes that are no UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)[:200]


def _deeper_than(value: object, levels: int) -> bool:
    """Tell whether containers stand more than ``levels`` deep, one level at a time: no recursion to exhaust."""
    layer: list[object] = [value]
    for _ in range(levels):
        layer = [child for container in layer for child in _children(container) if type(child) in _CONTAINERS]
        if not layer:
            return False
    return True


def _children(container: object) -> Iterable[object]:
    if isinstance(container, dict):
        return container.values()
    return container if isinstance(container, list) else ()


def _input(api: Api, body: Body) -> int:
    """Check the input that this API takes; return how many prompts it holds."""
    if api is Api.CHAT or api is Api.MESSAGES:
        fields.messages(body, "messages", most=MAX_MESSAGES)
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
    if fields.flag(body, "background"):
        raise InvalidField("background responses are not offered", param="background")
    given = body.get("input")
    if type(given) is str:
        return 1
    if type(given) is not list or not given or any(type(item) is not dict for item in given):
        raise InvalidField("input is required and must be a string or a list of items", param="input")
    if len(given) > MAX_MESSAGES:
        raise InvalidField(f"input holds more than {MAX_MESSAGES} items", param="input")
    return 1


def _sequences(body: Body) -> int:
    n = fields.whole(body, "n", low=1, high=MAX_SEQUENCES) or 1
    best_of = fields.whole(body, "best_of", low=1, high=MAX_SEQUENCES) or 1
    if best_of > 1 and best_of < n:
        raise InvalidField("best_of must not be less than n", param="best_of")
    return max(n, best_of)


def _per_sequence(api: Api, body: Body) -> int:
    given = [fields.whole(body, name, low=1, high=MAX_OUTPUT_TOKENS) for name in OUTPUT_FIELDS[api]]
    first = next((value for value in given if value is not None), None)
    if first is not None:
        return first
    if api is Api.MESSAGES:
        raise InvalidField("max_tokens is required", param="max_tokens")
    return COMPLETIONS_DEFAULT if api is Api.COMPLETIONS else 0


def _include_usage(body: Body, *, stream: bool) -> bool:
    options = body.get("stream_options")
    if options is None:
        return False
    if type(options) is not dict:
        raise InvalidField("stream_options must be an object", param="stream_options")
    if not stream:
        raise InvalidField("stream_options is only for streams", param="stream_options")
    return fields.flag(options, "include_usage")


# -- headers -------------------------------------------------------------------------

_REQUEST_ID = re.compile(rb"[A-Za-z0-9_.-]{1,64}")
_TRACEPARENT = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_PRINTABLE = re.compile(rb"[\x21-\x7e]{1,255}")
_MAX_DIGITS = 9

HeaderMap = Mapping[bytes, bytes]


def request_id(headers: HeaderMap, unique: str) -> str:
    """Return the caller's own id with ``unique`` behind it, or ``unique`` alone.

    Two requests never share one: an engine that is asked to abort an id must not stop somebody else's.
    """
    given = headers.get(b"x-request-id")
    return f"{given.decode()}-{unique}" if given and _REQUEST_ID.fullmatch(given) else f"req-{unique}"


def traceparent(headers: HeaderMap) -> str:
    """Return the caller's W3C trace context, or nothing where it is absent or damaged."""
    given = headers.get(b"traceparent")
    return given.decode() if given and _TRACEPARENT.fullmatch(given) else ""


def deadline_s(headers: HeaderMap) -> float:
    """Return the seconds that the caller gives us (``x-penstock-deadline-ms``); 0 where silent."""
    given = headers.get(b"x-penstock-deadline-ms")
    if given is None:
        return 0.0
    seconds = int(given) / 1000 if given.isdigit() and len(given) <= _MAX_DIGITS else 0.0
    if not 0 < seconds <= MAX_DEADLINE_S:
        most = int(MAX_DEADLINE_S * 1000)
        raise InvalidField(f"x-penstock-deadline-ms must be whole milliseconds from 1 to {most}", param="deadline")
    return seconds


def idempotency_key(headers: HeaderMap) -> str:
    """Return the caller's ``Idempotency-Key``; nothing where silent."""
    given = headers.get(b"idempotency-key")
    if given is None:
        return ""
    if not _PRINTABLE.fullmatch(given):
        raise BadRequest("Idempotency-Key must be 1 to 255 printable characters", param="idempotency-key")
    return given.decode()


def credential(headers: HeaderMap) -> str:
    """Return the API key from ``Authorization: Bearer`` or ``x-api-key``; nothing where there is none."""
    given = headers.get(b"authorization")
    if given is not None:
        scheme, _, token = given.partition(b" ")
        return token.strip().decode("latin-1") if scheme.lower() == b"bearer" else ""
    return headers.get(b"x-api-key", b"").decode("latin-1")
