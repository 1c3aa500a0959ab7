"""Where the time of a request went, as the answer itself says it (J3): a body field, a comment, a header. Pure."""

from collections.abc import Mapping, Sequence

import msgspec

from penstock.domain.ids import RequestId
from penstock.domain.outcome import Degradation, Stage

_ENCODER = msgspec.json.Encoder()


def _ms(seconds: Mapping[Stage, float]) -> dict[Stage, float]:
    return {stage: round(value * 1e3, 3) for stage, value in seconds.items()}


def field(
    request: RequestId, version: str, seconds: Mapping[Stage, float], degraded: Sequence[Degradation] = ()
) -> bytes:
    """Return the JSON object that unary answers carry as ``penstock``; ``degraded`` only where something lacks."""
    said: dict[str, object] = {"request_id": request, "version": version, "stages_ms": _ms(seconds)}
    return _ENCODER.encode({**said, "degraded": degraded} if degraded else said)


def spliced(body: bytes, extra: bytes) -> bytes:
    """Return the JSON object ``body`` with ``"penstock": extra`` as its last field; anything else as it is."""
    text = body.rstrip()
    if not text.startswith(b"{") or not text.endswith(b"}"):
        return body
    inside = text[:-1].rstrip()
    comma = b"" if inside == b"{" else b","
    return b'%b%b"penstock":%b}' % (inside, comma, extra)


def comment(
    request: RequestId, version: str, seconds: Mapping[Stage, float], degraded: Sequence[Degradation] = ()
) -> bytes:
    """Return the same as a comment in a stream: clients skip lines that begin with a colon."""
    return b": penstock %b\n\n" % field(request, version, seconds, degraded)


def server_timing(seconds: Mapping[Stage, float]) -> bytes:
    """Return the ``Server-Timing`` header (W3C), in milliseconds."""
    return ", ".join([f"{stage};dur={value * 1e3:.3f}" for stage, value in seconds.items()]).encode()
