"""Golden prompts: questions with known answers. An engine that answers one wrong must not serve (G1).

Checks are coarse: a substring of a greedy answer, an order of two similarities. Rounding differs between machines and
batches, so they detect only a wrong kernel, a damaged file or a lost chat template.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, cast

from penstock.domain.models.model import GoldenPrompt, Manifest, Task
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.worker.agent.warmup.warm import Ask

TIMEOUT_S = 60.0
_SHOWN_CHARS = 120


async def check(manifest: Manifest, ask: Ask) -> str:
    """The first wrong answer's fault, empty if all are right."""
    judge = _JUDGES[manifest.task]
    for number, golden in enumerate(manifest.golden, 1):
        fault = await judge(golden, manifest, ask)
        if fault:
            return f"golden prompt {number} of {len(manifest.golden)}: {fault}"
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
