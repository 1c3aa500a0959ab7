"""An engine on paper: streams a known answer token by token, with the text that vLLM 0.32 would show at each step.

Tokens are bytes, so a character may be cut in two; text that may become a stop string is held back; several tokens
may come in one event.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.domain.fleet.table import VersionEntry
from penstock.domain.serving.request import Api

PROMPT = [11, 12, 13]
FIRST_ID = 1000
"""The id of the answer's first token; the others follow."""


@dataclass(frozen=True, kw_only=True)
class WordEngine:
    """One version's greedy answer to one prompt, in tokens."""

    tokens: tuple[bytes, ...]
    stops: tuple[str, ...] = ()
    shows_stop: bool = False
    per_event: int = 1

    def texts(self, start: int = 0) -> list[str]:
        """Return the text that each token completes, beginning with token ``start``."""
        found, held = [], b""
        for token in self.tokens[start:]:
            held += token
            try:
                found.append(held.decode())
                held = b""
            except UnicodeDecodeError:
                found.append("")
        return found

    async def pieces(
        self, version: VersionEntry, prompt: Sequence[int], output: Sequence[int], *, skip_special: bool
    ) -> list[str]:
        """Read tokens as the gateway's tokenizer does."""
        del version, skip_special
        assert list(prompt) == PROMPT
        assert list(output) == [FIRST_ID + i for i in range(len(output))]
        return self.texts()[: len(output)]

    def stream(self, api: Api, prompt: Sequence[int], most: int, *, name: str = "a") -> Iterator[bytes]:
        """Yield the events of an answer to this prompt, which may hold the answer's beginning."""
        start = len(prompt) - len(PROMPT)
        head = {"id": name, "object": "o", "created": ord(name[0]), "model": "m"}
        if api is Api.CHAT:
            role = {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
            yield _event({**head, "choices": [role], "prompt_token_ids": list(prompt)})
        told = 0
        for ids, text, reason, stop in self._steps(start, most):
            told += len(ids)
            ending = {} if reason is None else {"stop_reason": stop}
            shown = {"delta": {"content": text}} if api is Api.CHAT else {"text": text}
            choice: dict[str, object] = {"index": 0, **shown, "logprobs": None, "finish_reason": reason, **ending}
            if api is Api.COMPLETIONS:
                choice |= {"stop_reason": stop, "prompt_token_ids": list(prompt) if told == len(ids) else None}
            yield _event({**head, "choices": [{**choice, "token_ids": ids}]})
        usage = {"prompt_tokens": len(prompt), "total_tokens": len(prompt) + told, "completion_tokens": told}
        yield _event({**head, "choices": [], "usage": usage, "metrics": {"queue_time_ms": 1.0}})
        yield b"data: [DONE]\n\n"

    def _steps(self, start: int, most: int) -> Iterator[tuple[list[int], str, str | None, str | None]]:
        """Yield ids, new text, and the reason of the end at the last one."""
        held = 0 if self.shows_stop else max((len(stop) - 1 for stop in self.stops), default=0)
        text, shown, ids = "", 0, list[int]()
        for i, piece in enumerate(self.texts(start)):
            before, text = len(text), text + piece
            ids.append(FIRST_ID + start + i)
            stop, text = self._stopped(text, before)
            is_last = start + i + 1 == len(self.tokens)
            reason = "stop" if stop is not None or (is_last and i + 1 < most) else "length" if i + 1 == most else None
            if reason is None and len(ids) < self.per_event:
                continue
            end = len(text) if reason else max(shown, len(text) - held)
            yield ids, text[shown:end], reason, stop
            shown, ids = end, []
            if reason:
                return

    def _stopped(self, text: str, before: int) -> tuple[str | None, str]:
        """Return the stop string that this step completed, and the text that is left of the answer."""
        ends = [
            (at + len(stop), at, stop)
            for stop in self.stops
            if (at := text.find(stop, max(0, before + 1 - len(stop)))) >= 0
        ]
        if not ends or before == len(text):
            return None, text
        end, at, stop = min(ends)
        return stop, text[: end if self.shows_stop else at]


def _event(body: dict[str, object]) -> bytes:
    return b"data: " + json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"
