"""The byte marks of each API's stream (tokens, end, errors), and the gateway's errors in its format.

The marks are byte strings that can only be structure: inside JSON text their quotes would be escaped.
"""

from dataclasses import dataclass

from penstock.domain.serving.request import Api
from penstock.gateway.streaming.sse import CHOICE, END


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    token: bytes
    """Stands once in every event that carries a token."""
    not_token: bytes
    """Stands in an event that has ``token`` but carries none (the role of a chat's first event)."""
    notable: tuple[bytes, ...]
    """One of these stands in every event that must be looked into; all others are only forwarded."""
    terminal: tuple[bytes, ...]
    """How the last event begins."""
    error: tuple[bytes, ...]
    """How the engine's error events begin."""
    error_prefix: bytes
    """What comes before our error's JSON."""

    aborted: bytes = b"no such event"
    """Stands in the event of an engine that gave the request up by itself: no way for an answer to end."""

    def counted(self, events: bytes) -> tuple[int, bytes]:
        """Return the number of tokens, as far as these events tell it, and the events unchanged."""
        return events.count(self.token) - events.count(self.not_token), events

    def error_event(self, body: bytes) -> bytes:
        return self.error_prefix + body + END


_OPENAI = Dialect(
    token=CHOICE,
    not_token=b'"delta":{"role"',
    notable=(b'"usage":{', b'"finish_reason":"', b"data: [DONE]", b'data: {"error"'),
    terminal=(b"data: [DONE]",),
    error=(b'data: {"error"',),
    error_prefix=b"data: ",
    aborted=b'"finish_reason":"abort"',
)

_RESPONSES = Dialect(
    token=b"event: response.output_text.delta",
    not_token=b"event: none",
    notable=(b"event: response.completed", b"event: response.incomplete", b"event: response.failed", b"event: error"),
    terminal=(b"event: response.completed", b"event: response.incomplete"),
    error=(b"event: error", b"event: response.failed", b'data: {"error"'),
    error_prefix=b"event: error\ndata: ",
)

_MESSAGES = Dialect(
    token=b"event: content_block_delta",
    not_token=b"event: none",
    notable=(b"event: message_", b"event: error"),
    terminal=(b"event: message_stop",),
    error=(b"event: error", b'data: {"error"'),
    error_prefix=b"event: error\ndata: ",
)

DIALECTS = {
    Api.CHAT: _OPENAI,
    Api.COMPLETIONS: _OPENAI,
    Api.EMBEDDINGS: _OPENAI,
    Api.CLASSIFY: _OPENAI,
    Api.INFER: _OPENAI,
    Api.RESPONSES: _RESPONSES,
    Api.MESSAGES: _MESSAGES,
}
