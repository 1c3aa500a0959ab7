"""The transcript of a stream: token ids of prompt and answer, text, and the common beginning of its events.

The token ids are removed from each event, because no caller requested them.
"""

import re
from array import array

import msgspec

from penstock.domain.serving.shadow import TokenIds
from penstock.gateway.answers import content, sse
from penstock.gateway.answers.content import Choice

FOLD_BYTES = 64 << 10
"""Bytes of events kept undecoded: memory of a running stream beside its ids and text."""

_CHOICES = b'"choices":['
_ROLE = b'"delta":{"role"'
_IDS = re.compile(rb'"token_ids":\[[\d,]*\]')
_PROMPT = b'"prompt_token_ids":['
_NO_IDS = b'"token_ids":null'
_NO_PROMPT = b'"prompt_token_ids":null'
_TOKENS = msgspec.json.Decoder(list[int])


class Transcript:
    """One choice, in the format of chats or of completions."""

    __slots__ = ("_has_finished", "_ids", "_is_faithful", "_prompt", "_said", "_unread", "_unread_bytes", "head")

    def __init__(self) -> None:
        self.head = b""
        """How every event of this stream begins, up to its choices: id, object, time, model."""
        self._prompt = b""
        self._ids: array[int] = array("I")
        self._said: list[str] = []
        self._unread: list[bytes] = []
        self._unread_bytes = 0
        self._is_faithful = True
        self._has_finished = False

    def take(self, events: bytes) -> tuple[int, bytes]:
        """The number of events with tokens, and the events without the ids."""
        if not self.head:
            events = self._begin(events)
        bare, told = _IDS.subn(_NO_IDS, events)
        if not told:
            return self._without_ids(events)
        self._unread.append(events)
        self._unread_bytes += len(events)
        if self._unread_bytes > FOLD_BYTES:
            self._fold()
        return told, bare

    def add(self, ids: list[int], text: str, *, is_last: bool) -> None:
        self._ids.extend(ids)
        self._said.append(text)
        self._has_finished = is_last

    def cut(self, kept: int) -> None:
        del self._ids[kept:]

    @property
    def is_faithful(self) -> bool:
        self._fold()
        return self._is_faithful and bool(self._prompt)

    @property
    def has_finished(self) -> bool:
        """True if only the usage may still be missing."""
        self._fold()
        return self._has_finished

    @property
    def prompt(self) -> list[int]:
        return _TOKENS.decode(b"[%b]" % self._prompt)

    @property
    def tokens(self) -> int:
        self._fold()
        return len(self._ids)

    @property
    def ids(self) -> list[int]:
        self._fold()
        return self._ids.tolist()

    def told(self) -> TokenIds | None:
        return TokenIds(prompt=self.prompt, answer=self.ids) if self.is_faithful else None

    @property
    def said(self) -> str:
        self._fold()
        text = "".join(self._said)
        self._said = [text]
        return text

    def _begin(self, events: bytes) -> bytes:
        at = events.find(_CHOICES)
        if at < 0:
            return events
        self.head = events[events.rfind(b"data:", 0, at) : at + len(_CHOICES)]
        before, mark, after = events.partition(_PROMPT)
        if not mark:
            return events
        self._prompt, _, after = after.partition(b"]")
        return before + _NO_PROMPT + after

    def _without_ids(self, events: bytes) -> tuple[int, bytes]:
        tokens = events.count(sse.CHOICE) - events.count(_ROLE)
        if tokens:
            self._is_faithful = False
        return tokens, events

    def _fold(self) -> None:
        if not self._unread:
            return
        events, self._unread, self._unread_bytes = b"".join(self._unread), [], 0
        try:
            choices = content.first_of_each(sse.choices_in(events))
            self._said.append("".join([self._read(choice) for choice in choices]))
        except (ValueError, OverflowError):
            self._is_faithful = False

    def _read(self, choice: Choice) -> str:
        if choice.finish_reason == content.ABORTED:
            return ""  # no caller sees it
        self._has_finished = choice.finish_reason is not None
        text = choice.said
        if choice.token_ids is not None:
            self._ids.extend(choice.token_ids)
        elif text:
            self._is_faithful = False
        return text or ""
