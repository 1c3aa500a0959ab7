"""Reads an OpenAI stream as it comes: when there was text, what the usage was, whether it ended properly.

What is no such stream is a ``ValueError``.
"""

from dataclasses import dataclass, field

import msgspec


class Usage(msgspec.Struct):
    """The target's count of tokens; None if it doesn't tell it."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Delta(msgspec.Struct):
    """What a reader sees of an answer."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: object = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    text: str | None = None

    @property
    def speaks(self) -> bool:
        """Say whether there is something to see."""
        return bool(self.text) or (self.delta is not None and any(msgspec.structs.astuple(self.delta)))


class _Event(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: Usage | None = None
    error: object = None


class Whole(msgspec.Struct):
    """An answer that came as a whole."""

    usage: Usage | None = None


_read = msgspec.json.Decoder(_Event).decode


@dataclass
class Stream:
    """One stream; ``texts_at`` are the moments at which pieces of text came."""

    texts_at: list[float] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    is_whole: bool = False
    error: str = ""
    _rest: bytes = b""

    def feed(self, data: bytes, now: float) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                self._event(line[5:].strip(), now)

    def _event(self, data: bytes, now: float) -> None:
        if data == b"[DONE]":
            self.is_whole = not self.error
            return
        event = _read(data)
        if event.error:
            self.error = code_of({"error": event.error})
        if event.usage:
            self.usage = event.usage
        if any(choice.speaks for choice in event.choices or ()):
            self.texts_at.append(now)


def code_of(body: object) -> str:
    """Return the short word of an error body, whatever its dialect; never its message, which may quote a prompt."""
    error = body.get("error", body) if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return "error"
    return str(error.get("code") or error.get("type") or "error")
