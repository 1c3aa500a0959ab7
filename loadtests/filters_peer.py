"""NeMo Guardrails' streaming with its own rail of regexes, in its own environment: ``filters_peer.py``.

Reads regexes and streams of tokens as JSON. Prints for its default, which shows text before it is judged, and for text
that is judged first: how many tokens came before each left, and how many characters left of each stream.
"""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Sequence
from importlib import import_module
from typing import Any

CHUNK, CONTEXT = 200, 50
"""Tokens, its own defaults."""
_ERROR = '{"error"'
"""How it tells that a rail ended the stream."""


def rails(patterns: Sequence[str], *, stream_first: bool) -> Any:  # noqa: ANN401 - of this peer's environment alone
    nemo: Any = import_module("nemoguardrails")
    streaming = {"enabled": True, "chunk_size": CHUNK, "context_size": CONTEXT, "stream_first": stream_first}
    of_rails = {
        "config": {"regex_detection": {"output": {"patterns": patterns}}},
        "output": {"flows": ["regex check output"], "streaming": streaming},
    }
    return nemo.LLMRails(nemo.RailsConfig.from_content(yaml_content=json.dumps({"models": [], "rails": of_rails})))


async def streamed(guard: Any, tokens: Sequence[str]) -> tuple[list[int], int]:  # noqa: ANN401
    came, waits, left = 0, list[int](), 0

    async def engine() -> AsyncIterator[str]:
        nonlocal came
        for token in tokens:
            came += 1
            yield token

    asked = [{"role": "user", "content": "Go on."}]
    async for piece in guard.stream_async(messages=asked, generator=engine()):
        if piece.startswith(_ERROR):
            break
        waits.append(came - 1 - len(waits))
        left += len(piece)
    return waits, left


async def main() -> None:
    logging.disable()
    asked = json.load(sys.stdin)
    told = {}
    for way, stream_first in (("shown first", True), ("judged first", False)):
        guard = rails(asked["patterns"], stream_first=stream_first)
        told[way] = [await streamed(guard, tokens) for tokens in asked["streams"]]
    print(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main())
