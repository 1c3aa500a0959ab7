"""Warm-up requests of typical shapes: short, long, concurrent, with callers' usual options. So kernels,
allocations, tokenisers, templates and grammars that are made on first use exist before the first caller.

Trade-off: each shape costs start time, so there are few, with short outputs.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from penstock.domain.errors import EngineError
from penstock.domain.models.model import EngineSettings, Task
from penstock.domain.serving.probe import EXAMPLES
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.tenant import PLATFORM

BATCH = 4
SHORT_TOKENS = 8
OUTPUT_TOKENS = 4
_FIRST_TOKEN, _TOKENS = 10, 500
"""Ids of ordinary tokens that every vocabulary has."""

Body = dict[str, object]

_SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
CALLERS_ASK: tuple[Body, ...] = (
    {"logprobs": 2},
    {"temperature": 1.0, "top_p": 0.9, "top_k": 40, "min_p": 0.01, "stop": ["\0"]},
    {"temperature": 1.0, "presence_penalty": 0.1, "frequency_penalty": 0.1, "repetition_penalty": 1.1},
    {"temperature": 1.0, "seed": 1},
    {"temperature": 1.0, "n": 2},
    {"structured_outputs": {"json": _SCHEMA}, "ignore_eos": False},
)
"""Common request options that a plain completion does not exercise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Bodies to send at once. An engine may refuse ``optional`` ones: not every model supports grammars."""

    api: Api
    bodies: tuple[Body, ...]
    optional: tuple[Body, ...] = ()


def rounds(task: Task, engine: EngineSettings) -> tuple[Round, ...]:
    room = engine.max_model_len - OUTPUT_TOKENS
    long = max(1, min(room, engine.max_num_batched_tokens * 5 // 4))
    short = max(1, min(room, SHORT_TOKENS))
    if task is Task.EMBED:
        several = _embedding(min(BATCH, engine.max_num_seqs), short)
        return (
            Round(api=Api.EMBEDDINGS, bodies=(_embedding(1, short),)),
            Round(api=Api.EMBEDDINGS, bodies=(_embedding(1, min(long, engine.max_model_len - 2)), several)),
        )
    if task is Task.CLASSIFY:
        counts = (1, min(BATCH, engine.max_num_seqs))
        return tuple(Round(api=Api.CLASSIFY, bodies=({EXAMPLES: count},)) for count in counts)
    asked = tuple(
        {**_completion(2 + i, min(room, short + i)), **asked} for i, asked in enumerate(_asked(engine.max_num_seqs))
    )
    return (
        Round(api=Api.COMPLETIONS, bodies=(_completion(0, short),)),
        Round(api=Api.COMPLETIONS, bodies=(_completion(1, long),), optional=asked),
    )


def _asked(max_num_seqs: int) -> tuple[Body, ...]:
    """Several sequences only if the engine runs them at once."""
    return tuple(asked for asked in CALLERS_ASK if asked.get("n", 1) == 1 or max_num_seqs > 1)


def _completion(seed: int, tokens: int) -> Body:
    return {
        "prompt": _ids(seed, tokens),
        "max_tokens": OUTPUT_TOKENS,
        "ignore_eos": True,
        "temperature": 0,
        "cache_salt": PLATFORM,
    }


def _embedding(texts: int, tokens: int) -> Body:
    return {"input": [_ids(seed, tokens) for seed in range(texts)]}


def _ids(seed: int, tokens: int) -> list[int]:
    return [_FIRST_TOKEN + (seed * 31 + i * 7) % _TOKENS for i in range(tokens)]


class EngineRefused(EngineError):
    """The engine refused the request."""


class Ask(Protocol):
    async def __call__(self, path: str, body: Mapping[str, object], timeout_s: float) -> Mapping[str, object]: ...


TIMEOUT_S = 120.0


async def work_through(task: Task, engine: EngineSettings, ask: Ask) -> None:
    """Raises errors of ``ask``, except refusals of optional bodies."""
    for each in rounds(task, engine):
        needed = (ask(each.api, body, TIMEOUT_S) for body in each.bodies)
        await asyncio.gather(*needed, *(_unless_refused(ask, each, body) for body in each.optional))


async def _unless_refused(ask: Ask, each: Round, body: Body) -> None:
    with suppress(EngineRefused):
        await ask(each.api, body, TIMEOUT_S)
