"""The byte marks of each API's stream (tokens, end, errors), and the gateway's errors in its format.

The marks are byte strings that can only be structure: inside JSON text their quotes would be escaped.
"""

from dataclasses import dataclass

from penstock.domain.serving.request import Api
from penstock.gateway.streaming.sse import CHOICE, END


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    token: bytes
    """Contained once in every event with a token."""
    not_token: bytes
    """Contained in an event that has ``token`` but no token (the role of a chat's first event)."""
    notable: tuple[bytes, ...]
    """Every event that must be read contains one of these; all others are only forwarded."""
    terminal: tuple[bytes, ...]
    """The beginning of the last event."""
    error: tuple[bytes, ...]
    """The beginning of the engine's error events."""
    error_prefix: bytes
    """The bytes before the JSON of the gateway's error."""

    aborted: bytes = b"no such event"
    """Contained in the event of an engine that aborted the request: no valid end of an answer."""

    def counted(self, events: bytes) -> tuple[int, bytes]:
        """The number of tokens that these events tell, and the events unchanged."""
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
