"""Reads bodies: small ones here, large ones in a child process, so that this process's streams are not delayed.

A large body's small fields are returned as values, the others as JSON encoded again: the engine gets the decoded object
either way.

Trade-off: a large body is decoded twice, which costs a tenth of its tokenising, and leaves no state in the child.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from penstock.domain.serving.request import Api, Sealed
from penstock.gateway.openai.bounds import BodyBounds
from penstock.gateway.openai.fields import Body
from penstock.gateway.openai.parse import Parsed, parse
from penstock.gateway.preprocess.offload import DONE, Offload, result

INLINE_BYTES = 16 << 10
INLINE_BRACKETS = 256
"""Brackets up to which a body is read on the event loop: at most 2 ms of decoding, checking and rendering."""
SCANNED_BYTES = 256 << 10
"""Bytes that are scanned in 1.5 ms at most."""
READABLE_BYTES = 4 << 10
"""Bytes of a large body's smallest fields that are returned as values."""
CONTENT = frozenset({"messages", "prompt", "input"})

_ENCODER = msgspec.json.Encoder()
_SORTED = msgspec.json.Encoder(order="deterministic")


class _ReadJob(msgspec.Struct):
    """A frame's header; the raw body follows."""

    api: Api
    bounds: BodyBounds


class _Field(msgspec.Struct):
    name: str
    size: int
    items: int
    is_text: bool


class _Read(msgspec.Struct):
    """The answer's header; the undecoded fields (``sealed``) follow as JSON."""

    parsed: Parsed
    sealed: list[_Field]
    digest: str


class _Named(msgspec.Struct):
    """The body's model; every other field is skipped."""

    model: str = ""


_ASKED = msgspec.json.Decoder(_ReadJob)
_NAMED = msgspec.json.Decoder(_Named)
_READ = msgspec.json.Decoder(_Read)


def is_small(raw: bytes) -> bool:
    return len(raw) <= INLINE_BYTES and raw.count(b"{") + raw.count(b"[") <= INLINE_BRACKETS


def model_of(raw: bytes) -> str:
    """Return the model's name; empty if the body is damaged, or too large to read here."""
    if len(raw) > SCANNED_BYTES:
        return ""
    try:
        return _NAMED.decode(raw).model
    except (msgspec.DecodeError, ValueError, RecursionError):
        return ""


@dataclass(frozen=True, slots=True)
class BodyReader:
    elsewhere: Offload | None = None
    task: bytes = b""
    tensors_task: bytes = b""
    messages_task: bytes = b""

    async def read(self, who: str, api: Api, raw: bytes, bounds: BodyBounds) -> tuple[Parsed, str]:
        """The digest is that of a large body; raises ``MalformedBody`` or ``InvalidField``."""
        if self.elsewhere is None or is_small(raw):
            return parse(api, raw, bounds), ""
        asked = _ENCODER.encode(_ReadJob(api, bounds))
        answer = await self.elsewhere.ask(who, (self.task, asked, b"\n", raw))
        return _opened(result(answer))

    async def tensors(self, who: str, head: memoryview) -> memoryview | None:
        """Return None if the JSON is small, or there is no child."""
        if self.elsewhere is None or (len(head) <= INLINE_BYTES and is_small(bytes(head))):
            return None
        return result(await self.elsewhere.ask(who, (self.tensors_task, bytes(head))))

    async def message(self, who: str, head: bytes) -> memoryview | None:
        if self.elsewhere is None:
            return None
        return result(await self.elsewhere.ask(who, (self.messages_task, head)))


def read(frame: memoryview) -> Sequence[bytes]:
    head, _, raw = bytes(frame).partition(b"\n")
    asked = _ASKED.decode(head)
    parsed = parse(asked.api, raw, asked.bounds)
    digest = hashlib.sha256(asked.api.encode() + b"\x1f" + _SORTED.encode(parsed.body)).hexdigest()
    readable, sealed = _parted(parsed.body)
    fields = [_Field(name, len(json), _items(parsed.body[name]), _is_text(parsed.body[name])) for name, json in sealed]
    told = _Read(msgspec.structs.replace(parsed, body=readable), fields, digest)
    return (DONE, _ENCODER.encode(told), b"\n", *[json for _, json in sealed])


def _parted(body: Body) -> tuple[Body, list[tuple[str, bytes]]]:
    readable: Body = {}
    sealed: list[tuple[str, bytes]] = []
    left = READABLE_BYTES
    for name, json in sorted(((name, _ENCODER.encode(value)) for name, value in body.items()), key=_size):
        left -= len(name) + len(json)
        if left < 0 or name in CONTENT:
            sealed.append((name, json))
        else:
            readable[name] = body[name]
    return readable, sealed


def _size(field: tuple[str, bytes]) -> int:
    return len(field[1])


def _opened(answer: memoryview) -> tuple[Parsed, str]:
    raw = bytes(answer)
    at = raw.index(b"\n") + 1
    told = _READ.decode(memoryview(raw)[: at - 1])
    for field in told.sealed:
        json = raw[at : at + field.size]
        told.parsed.body[field.name] = Sealed(json, items=field.items, is_text=field.is_text)
        at += field.size
    return told.parsed, told.digest


# -- what others must know of a field that they can't read ---------------------------------


def _items(value: object) -> int:
    """Prompts or messages; a text, or one prompt's ids, count as one."""
    return len(value) if isinstance(value, list) and value and type(value[0]) is not int else 1


def _is_text(value: object) -> bool:
    if isinstance(value, str):
        return True
    return isinstance(value, list) and all(isinstance(one, str) or _is_spoken(one) for one in value)


def _is_spoken(message: object) -> bool:
    if not isinstance(message, dict):
        return False
    content = message.get("content")
    if not isinstance(content, list):
        return content is None or isinstance(content, str)
    return all(isinstance(part, str) or (isinstance(part, dict) and part.get("type") == "text") for part in content)
