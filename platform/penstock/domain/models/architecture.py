"""The shape of a transformer, from which the sizes of its weights and KV cache follow; ``packaging`` reads it from
files.
"""

from dataclasses import dataclass
from enum import StrEnum


class AttentionKind(StrEnum):
    FULL = "full"
    """Keys and values of every token, per KV head (MHA, GQA, MQA)."""
    WINDOW = "window"
    """As full, for the last ``reach`` tokens."""
    LATENT = "latent"
    """One compressed vector for each token (MLA), the same on every GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """``reach`` is the tokens that a token attends to, 0 for all earlier ones."""

    kind: AttentionKind = AttentionKind.FULL
    kv_heads: int = 1
    head_dim: int
    """For a latent layer: the compressed vector and its rotary part together."""
    reach: int = 0

    def elements(self, tensor_parallel: int = 1) -> int:
        if self.kind is AttentionKind.LATENT:
            return self.head_dim
        return 2 * max(1, -(-self.kv_heads // tensor_parallel)) * self.head_dim


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    embedding: int
    """Parameters of the token embedding; counted again as output head if the two are not tied."""
    head: int
    dense: int
    """Attention, feed-forward and shared experts of all layers: read in every step."""
    experts: int = 0
    """All routed experts; resident in memory, and read in part."""
    active_experts: int = 0
    """The routed experts that one token reads."""

    @property
    def total(self) -> int:
        return self.embedding + self.head + self.dense + self.experts

    @property
    def active(self) -> int:
        """Read by one token: only one row of an embedding that is not also the output head."""
        return (self.head or self.embedding) + self.dense + self.active_experts


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    hidden: int
    intermediate: int
    """The widest feed-forward layer that one token passes."""
    vocabulary: int
    heads: int
    longest: int
    """The context that the model was trained for, in tokens; 0 if not stated."""
    layers: tuple[Attention, ...]
    parameters: Parameters
    bits: float = 16.0
    """Bits of a stored weight of the layers."""
    expert_bits: float = 16.0
    """Bits of a stored weight of the routed experts."""
