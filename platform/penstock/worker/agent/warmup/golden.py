"""Golden prompts: questions with known answers.

An engine that answers one wrong must not serve (G1). Checks are coarse, since rounding differs between machines and
batches: a substring of a greedy answer, an order of two similarities. They detect a wrong kernel, a damaged file or a
lost chat template. An overflow, of which callers would get an empty answer with status 200, shows in log probabilities
that are not finite.
"""

import asyncio
import math
from collections.abc import Iterable, Mapping
from typing import Any, cast

from penstock.domain.errors import EngineError
from penstock.domain.models.model import GoldenPrompt, Manifest, Task
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.worker.agent.warmup.warm import BATCH, Ask

TIMEOUT_S = 60.0
_SHOWN_CHARS = 120
PROBE_TOKENS = 8
_FLOOR = -9999.0
"""vLLM's substitute for minus infinity: no chosen token can have it."""
_NO_JSON = "JSON compliant"
"""Part of the error with which Python's ``json`` refuses NaN: the engine can't send its answer then."""


async def check(manifest: Manifest, ask: Ask) -> str:
    """The first wrong answer's fault, empty if all are right."""
    judge, prompts = _JUDGES[manifest.task], manifest.golden
    for first in range(0, len(prompts), BATCH):
        faults = await asyncio.gather(*(judge(one, manifest, ask) for one in prompts[first : first + BATCH]))
        for number, fault in enumerate(faults, first + 1):
            if fault:
                return f"golden prompt {number} of {len(prompts)}: {fault}"
    return ""


async def _generates(golden: GoldenPrompt, manifest: Manifest, ask: Ask) -> str:
    body: dict[str, object] = {"max_tokens": golden.max_tokens, "temperature": 0, "cache_salt": PLATFORM}
    if manifest.chat_template:
        body["messages"] = [{"role": "user", "content": golden.prompt}]
        answer = cast("dict[str, Any]", await ask(Api.CHAT, body, TIMEOUT_S))
        text = answer["choices"][0]["message"]["content"] or ""
    else:
        body["prompt"] = golden.prompt
        answer = cast("dict[str, Any]", await ask(Api.COMPLETIONS, body, TIMEOUT_S))
        text = answer["choices"][0]["text"]
    if golden.expect in text:
        return ""
    return f"expected {golden.expect!r} in the answer, got {text[:_SHOWN_CHARS]!r}"


async def _embeds(golden: GoldenPrompt, _: Manifest, ask: Ask) -> str:
    texts = [golden.prompt, golden.near, golden.far]
    query, near, far = _vectors(await ask(Api.EMBEDDINGS, {"input": texts}, TIMEOUT_S))
    nearness, farness = _cosine(query, near), _cosine(query, far)
    if nearness > farness:
        return ""
    return f"expected the near text to be nearer than the far one, got {nearness:.3f} and {farness:.3f}"


async def _classifies(golden: GoldenPrompt, _: Manifest, ask: Ask) -> str:
    answer = cast("dict[str, Any]", await ask(Api.CLASSIFY, {"input": [golden.prompt]}, TIMEOUT_S))
    label = answer["data"][0]["label"]
    if label == golden.expect:
        return ""
    return f"expected the label {golden.expect!r}, got {str(label)[:_SHOWN_CHARS]!r}"


_JUDGES = {Task.GENERATE: _generates, Task.EMBED: _embeds, Task.CLASSIFY: _classifies}


def _vectors(answer: Mapping[str, object]) -> list[list[float]]:
    rows = cast("list[dict[str, Any]]", answer["data"])
    return [row["embedding"] for row in sorted(rows, key=lambda row: row["index"])]


def _cosine(a: Iterable[float], b: Iterable[float]) -> float:
    """NaN if a vector has one, which fails every comparison."""
    a, b = list(a), list(b)
    lengths = math.hypot(*a) * math.hypot(*b)
    return sum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths else math.nan


async def overflow(manifest: Manifest, ask: Ask) -> str:
    """Return the fault of a few tokens' log probabilities; empty if they are finite."""
    prompt = manifest.golden[0].prompt if manifest.golden else list(range(1, 1 + PROBE_TOKENS))
    body = {"prompt": prompt, "max_tokens": PROBE_TOKENS, "min_tokens": 1, "logprobs": 1, "temperature": 0}
    try:
        answer = cast("dict[str, Any]", await ask(Api.COMPLETIONS, body | {"cache_salt": PLATFORM}, TIMEOUT_S))
    except EngineError as error:
        if _NO_JSON in str(error):
            return "its log probabilities are no numbers, and can't be sent"
        raise
    told = (answer["choices"][0].get("logprobs") or {}).get("token_logprobs") or []
    if not told:
        return "it answers nothing"
    return "" if all(_is_sound(one) for one in told) else "its log probabilities are no numbers"


def _is_sound(told: object) -> bool:
    return isinstance(told, int | float) and math.isfinite(told) and told > _FLOOR
