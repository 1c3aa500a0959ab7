"""The texts of a request that a policy judges. Pure."""

from collections.abc import Iterator, Mapping

import msgspec

from penstock.domain.errors import UnsupportedField
from penstock.domain.serving.request import InferenceRequest, Sealed
from penstock.gateway.safety import tensors

_UNSEEN = frozenset({"model", "user", "safety_identifier", "metadata", "prompt_cache_key", "previous_response_id"})
"""Fields that no model is shown; all others are judged."""
_AS_IDS = ("return_token_ids", "return_tokens_as_token_ids", "prompt_logprobs", "logprob_token_ids")
_RULED = "a safety policy holds for this request: "
_DATA_URL = "data:"
"""Pictures and sounds are no text."""


def texts(request: InferenceRequest) -> Iterator[str]:
    """Yield each text; raises ``UnsupportedField`` for a prompt of token ids, which no rule can read."""
    for name, value in request.body.items():
        if name in _UNSEEN:
            continue
        if isinstance(value, Sealed):
            value = msgspec.json.decode(value.json)  # noqa: PLW2901 - the same value, read
        if name in ("prompt", "input") and _has_ids(value):
            raise UnsupportedField(f"{_RULED}send text, not token ids", param=name)
        yield from _strings(value)
    if request.tensors is not None:
        yield from tensors.texts(request.tensors.data)


def check_answer(request: InferenceRequest) -> None:
    """Raise ``UnsupportedField`` for a wish for token ids, which no rule can read in an answer."""
    for name in _AS_IDS:
        if request.body.get(name) not in (None, False, []):
            raise UnsupportedField(f"{_RULED}no rule reads token ids, leave it out", param=name)


def _has_ids(value: object) -> bool:
    if not isinstance(value, list) or not value:
        return False
    first = value[0]
    return type(first) is int or (isinstance(first, list) and bool(first) and type(first[0]) is int)


def _strings(value: object) -> Iterator[str]:
    """Yield each text, and the names of fields, which a model is shown too. Parts of a message are one text: the engine
    joins them by line ends.
    """
    if isinstance(value, str):
        if not value.startswith(_DATA_URL):
            yield value
    elif isinstance(value, Mapping):
        yield "\n".join(map(str, value))
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        parts = [one["text"] for one in value if _is_part(one)]
        is_joined = len(parts) > 1
        if is_joined:
            yield "\n".join(parts)
        for inner in value:
            yield from _strings({**inner, "text": None} if is_joined and _is_part(inner) else inner)


def _is_part(value: object) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("text"), str)
