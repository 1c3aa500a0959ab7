"""Joins the continuation at another worker to the broken stream, so that the caller receives one stream.

Each event of the continuation gets the first worker's id, time, model and format.
"""

import msgspec

from penstock.domain.serving.request import Api
from penstock.gateway.answers import sse
from penstock.gateway.answers.content import ABORTED, Choice, added
from penstock.gateway.streaming.continuation import Cut
from penstock.gateway.streaming.transcript import Transcript

_EMPTY = b'"choices":[]'
_SHAPES = {
    Api.CHAT: (b'{"index":0,"delta":{"content":%b},"logprobs":null,"finish_reason":', b',"token_ids":null}]}'),
    Api.COMPLETIONS: (
        b'{"index":0,"text":%b,"logprobs":null,"finish_reason":',
        b',"prompt_token_ids":null,"token_ids":null}]}',
    ),
}
"""The text before and after the finish reason in vLLM 0.32's events."""


class Diverged(ValueError):
    pass


_encode = msgspec.json.Encoder().encode


class Splice:
    __slots__ = ("_after", "_api", "_before", "_cut", "_lead", "_prompt_tokens", "_replay", "_transcript")

    def __init__(self, api: Api, transcript: Transcript, cut: Cut, prompt_tokens: int) -> None:
        self._transcript = transcript
        self._cut = cut
        self._lead, self._replay = cut.lead, cut.replay
        self._prompt_tokens = prompt_tokens
        self._api = api
        self._before, self._after = _SHAPES[api]

    def take(self, events: bytes) -> tuple[int, bytes]:
        """Raises ``ValueError`` if an event can't be read or does not fit the first half."""
        tokens, out = 0, []
        for event in sse.split(events):
            if sse.CHOICE in event:
                choice = added(self._api, sse.data_of(event))[0]
                tokens += len(choice.token_ids or ())
                out.append(self._told(choice))
            elif _EMPTY in event:
                out.append(usage_event(self._transcript.head, sse.data_of(event), self._cut.kept, self._prompt_tokens))
            else:
                out.append(event)
        return tokens, b"".join(out)

    def _told(self, choice: Choice) -> bytes:
        reason = choice.finish_reason
        text = self._new_of(choice) if reason != ABORTED else ""
        if not text and reason is None:
            return b""
        why = _encode(reason)
        if reason is not None:
            why += b',"stop_reason":%b' % _encode(choice.stop_reason)
        return self._transcript.head + self._before % _encode(text) + why + self._after + sse.END

    def _new_of(self, choice: Choice) -> str:
        text, is_last = self._fitted(choice.text or ""), choice.finish_reason is not None
        if is_last and self._replay:
            raise Diverged("the answer ended before it had said again what was said")
        self._transcript.add(choice.token_ids or [], text, is_last=is_last)
        return text

    def _fitted(self, text: str) -> str:
        if self._lead:
            text, self._lead = self._lead + text, ""
        if not self._replay:
            return text
        if text.startswith(self._replay):
            text, self._replay = text[len(self._replay) :], ""
            return text
        if self._replay.startswith(text):
            self._replay = self._replay[len(text) :]
            return ""
        raise Diverged("the answer went on in another way")


def usage_event(head: bytes, said: bytes, kept: int, prompt_tokens: int) -> bytes:
    body = {**msgspec.json.decode(said), **msgspec.json.decode(head.partition(b":")[2] + b"]}")}
    body.pop("metrics", None)
    usage = body.get("usage")
    if isinstance(usage, dict):
        output = kept + int(usage.get("completion_tokens") or 0)
        usage |= {
            "prompt_tokens": prompt_tokens,
            "total_tokens": prompt_tokens + output,
            "completion_tokens": output,
        }
        details = usage.get("prompt_tokens_details")
        if isinstance(details, dict) and isinstance(details.get("cached_tokens"), int):
            details["cached_tokens"] = min(prompt_tokens, details["cached_tokens"])
    return b"data: " + _encode(body) + sse.END
