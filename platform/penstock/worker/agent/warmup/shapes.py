"""Requests of the shapes that will come: short, long, many at once. What is lazily made, is made before the first
caller waits for it: kernels, allocations, tokeniser, templates.

Trade-off: each shape costs start time, so there are few, and outputs are short. Pure: only says what to send.
"""

from penstock.domain.model import EngineSettings, Task
from penstock.domain.request import Api
from penstock.domain.tenant import PLATFORM

BATCH = 4
SHORT_TOKENS = 8
OUTPUT_TOKENS = 8
_FIRST_TOKEN, _TOKENS = 10, 500
"""Ids that every vocabulary has, and no special ones."""

Body = dict[str, object]


def rounds(task: Task, engine: EngineSettings) -> tuple[tuple[Api, tuple[Body, ...]], ...]:
    """Return what to send: rounds one after the other, the bodies of a round at once."""
    room = engine.max_model_len - OUTPUT_TOKENS
    long = max(1, min(room, engine.max_num_batched_tokens * 5 // 4))
    short = max(1, min(room, SHORT_TOKENS))
    batch = min(BATCH, engine.max_num_seqs)
    if task is Task.EMBED:
        return (
            (Api.EMBEDDINGS, (_embedding(1, short),)),
            (Api.EMBEDDINGS, (_embedding(1, min(long, engine.max_model_len - 2)), _embedding(batch, short))),
        )
    return (
        (Api.COMPLETIONS, (_completion(0, short),)),
        (Api.COMPLETIONS, (_completion(1, long), *(_completion(2 + i, min(room, short + i)) for i in range(batch)))),
    )


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
