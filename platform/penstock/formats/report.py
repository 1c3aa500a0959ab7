"""The codec of a gate's report: JSON in one header, and a stream's counts in a comment before its last event.

Parts are decoded separately: if one is damaged, or in a newer gate's format, the others are still read.
"""

from dataclasses import replace
from typing import TypeVar

import msgspec

from penstock.domain.serving.report import SILENT, Adapted, Batched, Load, Report, Used, Waited

HEADER = b"x-penstock-report"
COMMENT = b": penstock-report "
"""The beginning of a comment line before a stream's last event, which no client receives."""
MOST_BYTES = 4 << 10
_NONE = msgspec.Raw(b"null")
Part = TypeVar("Part")


class _Parts(msgspec.Struct, gc=False):
    load: msgspec.Raw = _NONE
    waited: msgspec.Raw = _NONE
    adapted: msgspec.Raw = _NONE
    batched: msgspec.Raw = _NONE
    used: msgspec.Raw = _NONE


_PARTS = msgspec.json.Decoder(_Parts)
_LOAD = msgspec.json.Decoder(Load)
_WAITED = msgspec.json.Decoder(Waited)
_ADAPTED = msgspec.json.Decoder(Adapted)
_BATCHED = msgspec.json.Decoder(Batched)
_USED = msgspec.json.Decoder(Used)
_ENCODER = msgspec.json.Encoder()


def encode(report: Report) -> bytes:
    parts = {
        "load": report.load,
        "waited": report.waited,
        "adapted": report.adapted,
        "batched": report.batched,
        "used": report.used,
    }
    return _ENCODER.encode({name: part for name, part in parts.items() if part is not None})


def decode(value: bytes) -> Report:
    """Return a gate's report without the parts that can't be decoded; an empty one if the value is no report."""
    if not value or len(value) > MOST_BYTES:
        return SILENT
    try:
        parts = _PARTS.decode(value)
    except (msgspec.MsgspecError, ValueError):
        return SILENT
    batched = _part(_BATCHED, parts.batched, "waited_s", "prepared_s", "computed_s")
    return Report(
        load=_part(_LOAD, parts.load, "running", "waiting", "queued_tokens", "kv_used_ratio", "wait_s", "pace_per_s"),
        waited=_part(_WAITED, parts.waited, "predicted_s", "waited_s", "waiting", "tenants"),
        adapted=_part(_ADAPTED, parts.adapted, "waited_s"),
        batched=batched if batched is not None and batched.size > 0 else None,
        used=_used(parts.used),
    )


def _part(decoder: "msgspec.json.Decoder[Part]", raw: msgspec.Raw, *amounts: str) -> Part | None:
    if raw is _NONE:
        return None
    try:
        part = decoder.decode(raw)
    except (msgspec.MsgspecError, ValueError):
        return None
    return None if any((getattr(part, name) or 0) < 0 for name in amounts) else part


_COUNTS = ("prompt_tokens", "cached_tokens", "output_tokens", "sequences", "prompts", "steps", "beside", "engine_us")


def _used(raw: msgspec.Raw) -> Used | None:
    used = _part(_USED, raw, *_COUNTS)
    return None if used is None else replace(used, cached_tokens=min(used.cached_tokens, used.prompt_tokens))
