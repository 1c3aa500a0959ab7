"""Bounds of the requests that a gateway holds for one sleeping version."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldSettings:
    """``tenant_ratio`` is one tenant's most of requests and tokens; ``seconds`` bounds each request."""

    requests: int = 256
    tokens: int = 1_000_000
    seconds: float = 60.0
    tenant_ratio: float = 0.5
