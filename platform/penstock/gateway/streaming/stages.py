"""Adds a request's time by stage to its answer (J3): a body field, a stream's comment, a header. Pure."""

from collections.abc import Mapping, Sequence

import msgspec

from penstock.domain.outcome import Stage
from penstock.domain.serving.report import Batched
from penstock.gateway.answers.account import EngineTimes
from penstock.gateway.calls.call import Call, Timings
from penstock.gateway.streaming.service_tier import is_told

_ENCODER = msgspec.json.Encoder()


def _ms(seconds: Mapping[Stage, float]) -> dict[Stage, float]:
    return {stage: round(value * 1e3, 3) for stage, value in seconds.items()}


def field(call: Call, version: str) -> bytes:
    said: dict[str, object] = {
        "request_id": call.request.id,
        "version": version,
        "stages_ms": _ms(call.timings.seconds),
    }
    if call.degraded:
        said["degraded"] = call.degraded
    if is_told(call):
        said["service_tier"] = call.principal.tier.name
    return _ENCODER.encode(said)


def spliced(pieces: Sequence[bytes], extra: bytes) -> list[bytes]:
    """Append ``"penstock": extra`` as the last field; other bytes stay unchanged."""
    *before, last = pieces
    text = last.rstrip()
    if not (before or [text])[0].startswith(b"{") or not text.endswith(b"}"):
        return [*pieces]
    inside = text[:-1].rstrip()
    comma = b"" if inside == b"{" and not before else b","
    return [*before, b'%b%b"penstock":%b}' % (inside, comma, extra)]


def cache_written(data: bytes) -> bytes:
    """VLLM's field for tokens written to the cache gets OpenAI's name."""
    return data.replace(b'"created_cache_tokens":', b'"cache_write_tokens":', 1)


def server_timing(seconds: Mapping[Stage, float]) -> bytes:
    """Return the ``Server-Timing`` header (W3C), in milliseconds."""
    return ", ".join([f"{stage};dur={value * 1e3:.3f}" for stage, value in seconds.items()]).encode()


def engine_stages(times: EngineTimes, waited_s: float) -> dict[Stage, float]:
    """Split ``waited_s`` (from sending to the last token) by the engine's own times; the rest counts as relay."""
    said = {
        Stage.QUEUE: times.queue_time_ms,
        Stage.PREFILL: times.time_to_first_token_ms,
        Stage.DECODE: times.generation_time_ms,
    }
    seconds = {stage: ms / 1e3 for stage, ms in said.items() if ms is not None}
    seconds[Stage.RELAY] = max(0.0, waited_s - sum(seconds.values()))
    return seconds


def split_batched(timings: Timings, batched: Batched, *, items: int) -> None:
    """Split by the worker's times of the last item; the rest counts as relay, or as items' wait for each other."""
    if batched.prepared_s is None or batched.computed_s is None:
        return
    left_s = timings.seconds.pop(Stage.DECODE, 0.0)
    parts = {Stage.BATCH_WAIT: batched.waited_s, Stage.PREPARE: batched.prepared_s, Stage.COMPUTE: batched.computed_s}
    for stage, seconds in parts.items():
        spent = min(seconds, left_s)
        timings.put(stage, timings.seconds.get(stage, 0.0) + spent)
        left_s -= spent
    rest = Stage.RELAY if items == 1 else Stage.BATCH_WAIT
    timings.put(rest, timings.seconds.get(rest, 0.0) + left_s)
