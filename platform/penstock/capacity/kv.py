"""The KV cache of a model in blocks, as vLLM lays it out: tokens that fit, and concurrent requests.

Layers of one kind and shape are a group, or several of equal size if kinds mix; a block of the pool holds a block's
tokens for each layer of one group. Source: vLLM 0.32, ``v1/core/kv_cache_utils.py`` and ``v1/kv_cache_interface.py``.

Trade-off: it follows one engine's layout; bytes per token are wrong by a factor if kinds mix.
"""

import math
from collections import Counter
from dataclasses import dataclass

from penstock.domain.errors import ArtifactRefused
from penstock.domain.models.architecture import Architecture, Attention, AttentionKind

UNEVEN = 1.5
"""Below this ratio of layers vLLM pads the smaller group instead of splitting the larger one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    block_tokens: int = 16
    element_bytes: float = 2.0
    context_tokens: int
    step_tokens: int
    """The most tokens of a step, ``max_num_batched_tokens``: a window also keeps the tokens in flight."""
    tensor_parallel: int = 1
    pipeline_parallel: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The cache of one GPU: bytes of a block, and the kinds of layers with their number of groups."""

    settings: CacheSettings
    block_bytes: int
    groups: tuple[tuple[Attention, int, int], ...]
    """Kind, number of groups, tokens of a block."""

    def blocks(self, tokens: int) -> int:
        return sum(count * self._of(layer, size, tokens) for layer, count, size in self.groups)

    def request_bytes(self, tokens: int) -> int:
        return self.blocks(tokens) * self.block_bytes

    def pool_blocks(self, pool_bytes: int) -> int:
        return pool_bytes // self.block_bytes

    def concurrency(self, pool_bytes: int, tokens: int) -> float:
        """Return the number of concurrent requests of this context that fit in the pool."""
        return self.pool_blocks(pool_bytes) / self.blocks(tokens)

    def told_tokens(self, pool_bytes: int) -> int:
        """What vLLM logs as "GPU KV cache size": concurrency at the longest context, times that context."""
        longest = self.settings.context_tokens
        return int(self.concurrency(pool_bytes, longest) * longest)

    def _of(self, layer: Attention, size: int, tokens: int) -> int:
        if layer.kind is AttentionKind.WINDOW:
            kept = min(layer.reach - 1 + self.settings.step_tokens, tokens)
            return math.ceil(kept / size) + 1
        return math.ceil(tokens / size)


def layout(model: Architecture, settings: CacheSettings) -> Layout:
    """Return the layout on the GPU with the most layers; raises ``ArtifactRefused`` if vLLM has none."""
    stages = settings.pipeline_parallel
    # Of a pattern of kinds each stage has its part; the fullest one bounds all.
    kinds = {kind: math.ceil(count / stages) for kind, count in Counter(model.layers).items()}
    pages = {kind: _page_bytes(kind, settings) for kind in kinds}
    largest = max(pages.values())
    if len({(kind.kind, kind.reach) for kind in kinds}) == 1:
        kind = max(kinds, key=lambda one: pages[one])
        size = sum(count * pages[one] for one, count in kinds.items())
        return Layout(settings=settings, block_bytes=size, groups=((kind, 1, settings.block_tokens),))
    if any(kind.kind is AttentionKind.LATENT for kind in kinds):
        raise ArtifactRefused(
            "models that mix latent (MLA) attention with other layers can't be planned: measure the engine"
        )
    fewest, most = min(kinds.values()), max(kinds.values())
    size = most if most < fewest * UNEVEN else fewest
    groups = tuple(
        (kind, math.ceil(count / size), settings.block_tokens * max(1, largest // pages[kind]))
        for kind, count in kinds.items()
    )
    return Layout(settings=settings, block_bytes=size * largest, groups=groups)


def _page_bytes(kind: Attention, settings: CacheSettings) -> int:
    return math.ceil(settings.block_tokens * kind.elements(settings.tensor_parallel) * settings.element_bytes)
