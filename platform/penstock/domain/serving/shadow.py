"""Shadow copies: an answered request is sent again to a version under test; callers never see that answer."""

from dataclasses import dataclass
from math import isfinite

from penstock.domain.ids import Alias, RequestId, TenantId, VersionId
from penstock.domain.serving.agreement import Pair

MOST_PER_S = 1_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowCaps:
    """One gateway's; copies are the first requests to be shed."""

    per_s: float = 5.0
    """Copies a second; 0 for none."""
    tokens_per_s: float = 5_000.0
    """Tokens of the copied prompts and answers."""
    at_once: int = 16
    scored_per_s: float = 1.0
    """Answers a second that both versions are asked to score; 0 for none. Each costs both versions a prompt of that
    length.
    """

    @property
    def fault(self) -> str:
        rates = (self.per_s, self.scored_per_s)
        if not all(isfinite(one) and 0 <= one <= MOST_PER_S for one in rates):
            return f"rates are from 0 to {MOST_PER_S:g} a second"
        if not (isfinite(self.tokens_per_s) and self.tokens_per_s >= 0) or self.at_once < 0:
            return "tokens and copies at once are 0 or more"
        return ""


CAPS = ShadowCaps()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadow:
    version: VersionId
    caps: ShadowCaps = CAPS
    scores: bool = False
    """Both versions score the incumbent's answers: they should be the same model."""
    out: tuple[TenantId, ...] = ()
    """Tenants whose requests are not copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """``tenant`` and ``sticky`` belong to the original's caller."""

    of: RequestId
    alias: Alias
    tenant: TenantId
    sticky: str
    is_evidence: bool = True
    """False if the copy only keeps the candidate busy, or asks how likely an answer is."""
    paid: int | None = None
    """The original's cost (``Price.uncached``); None if unknown."""
    is_scored: bool = False
    """Whether the engine returns the prompt's token ids, after which the candidate scores the answer."""
    pair: Pair | None = None
    """The pair of rules whose answers are compared, for a copy without a candidate; no judge counts it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenIds:
    prompt: list[int]
    answer: list[int]
