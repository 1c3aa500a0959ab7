"""What a gateway holds at most of requests for one version that sleeps."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldSettings:
    """``tenant_ratio`` is the part of requests and tokens that one tenant may hold; ``seconds`` bounds each request."""

    requests: int = 256
    tokens: int = 1_000_000
    seconds: float = 60.0
    tenant_ratio: float = 0.5
