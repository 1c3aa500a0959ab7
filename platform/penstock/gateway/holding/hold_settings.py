"""Bounds on the requests that a gateway holds for one version."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldSettings:
    """``tenant_ratio``: one tenant's largest share; ``seconds`` bounds each wait."""

    requests: int = 256
    tokens: int = 1_000_000
    seconds: float = 60.0
    tenant_ratio: float = 0.5
