"""The texts of a request that a policy judges. Pure."""

import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from penstock.domain.errors import UnsupportedField
from penstock.domain.serving.request import InferenceRequest, Sealed
from penstock.gateway.safety import tensors

UNSEEN = frozenset({"model", "user", "safety_identifier", "metadata", "prompt_cache_key", "previous_response_id"})
"""Fields that no model is shown; all others are judged."""
_AS_IDS = ("return_token_ids", "return_tokens_as_token_ids", "prompt_logprobs", "logprob_token_ids")
_RULED = "a safety policy holds for this request: "
_TURNS = ("messages", "input")
_PARTS = ("content", "output")
_MEDIA = {
    **{kind: kind for kind in ("image_url", "audio_url", "video_url", "input_audio")},
    "input_image": "image_url",
    "image": "source",
}
"""Kinds of parts that an engine decodes as a picture, sound or film, and the field that has it."""
_SAID = ("text", "thinking", "refusal")
"""Fields of a part that have its text."""
_DATA_URL = re.compile(r"data:(?:image|audio|video)/[\w.+-]{1,64};base64,", re.ASCII | re.IGNORECASE)


def texts(request: InferenceRequest) -> Iterator[str]:
    """Yield each text; raises ``UnsupportedField`` for a prompt of token ids, which no rule can read."""
    for name, value in request.body.items():
        if name in UNSEEN:
            continue
        if isinstance(value, Sealed):
            value = msgspec.json.decode(value.json)  # noqa: PLW2901 - the same value, read
        if name in ("prompt", "input") and _has_ids(value):
            raise UnsupportedField(f"{_RULED}send text, not token ids", param=name)
        yield from _strings(_read(value) if name in _TURNS else value)
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


def _read(turns: object) -> object:
    """Return turns without the bytes of pictures, sounds and films: those are no text."""
    return [_with_parts(turn) for turn in turns] if isinstance(turns, list) else turns


def _with_parts(turn: object) -> object:
    if not isinstance(turn, Mapping):
        return turn
    lists = {name: [_part(one) for one in turn[name]] for name in _PARTS if isinstance(turn.get(name), list)}
    return {**turn, **lists} if lists else turn


def _part(part: object) -> object:
    if isinstance(part, str):
        return {_SAID[0]: part}
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(part, Mapping) or not isinstance(kind, str):
        return part
    if kind == "tool_result":
        return _with_parts(part)
    name = _MEDIA.get(kind, "")
    return {**part, name: _undecoded(name, part[name])} if name in part else part


def _undecoded(name: str, given: Any) -> object:  # noqa: ANN401 - any JSON
    if not isinstance(given, Mapping):
        return None if _is_media(given) else given
    is_plain = name == "input_audio" or given.get("type") == "base64"
    seen = {"url": _is_media(given.get("url")), "data": is_plain and _is_base64(given.get("data"))}
    return {field: None if seen.get(field) else value for field, value in given.items()}


def _is_media(given: object) -> bool:
    found = _DATA_URL.match(given) if isinstance(given, str) else None
    return found is not None and _is_base64(found.string[found.end() :])


def _is_base64(given: object) -> bool:
    if not isinstance(given, str):
        return False
    try:
        return bool(binascii.a2b_base64(given, strict_mode=True))
    except ValueError:
        return False


def _strings(value: object) -> Iterator[str]:
    """Yield each text, and names and numbers of fields, which a model is shown too. Parts of a message are one text: an
    engine joins them, by line ends or by nothing.
    """
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield "\n".join([*map(str, value), *(str(one) for one in value.values() if _is_number(one))])
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        yield from _in_list(value)


def _in_list(value: list[Any]) -> Iterator[str]:
    if numbers := [str(one) for one in value if _is_number(one)]:
        yield "\n".join(numbers)
    names = [_said_in(one) for one in value]
    parts = [one[name] for one, name in zip(value, names, strict=True) if name]
    is_joined = len(parts) > 1
    if is_joined:
        yield "\n".join(parts)
        yield "".join(parts)
    for inner, name in zip(value, names, strict=True):
        yield from _strings({**inner, name: None} if is_joined and name else inner)


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _said_in(part: object) -> str:
    if not isinstance(part, Mapping):
        return ""
    return next((name for name in _SAID if isinstance(part.get(name), str)), "")
