"""Batching settings of one version: bounds, the SLO behind the window, prior compute times."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Items in a batch (0: no bound of its own), longest wait in seconds."""

    max_items: int = 0
    max_wait_s: float = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    fixed_s: float = 0.005
    per_item_s: float = 0.002

    def seconds(self, size: int) -> float:
        return self.fixed_s + self.per_item_s * size


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSettings:
    """``slo_s`` is the tier's promised response time, 0 without one."""

    max_items: int = 32
    max_cost: int = 0
    """Tokens or pixels of a batch, padding included; 0 does not bound them."""
    slo_s: float = 0.0
    margin_s: float = 0.005
    """Seconds for work other than compute: transfer, answer."""
    in_flight: int = 1
    ahead_s: float = 0.0
    """With two batches in flight: seconds before the first one's predicted end at which the second may start."""
    interactive: Caps = field(default_factory=Caps)
    offline: Caps = field(default_factory=lambda: Caps(max_wait_s=1.0))
    prior: Prior = field(default_factory=Prior)

    def caps(self, *, offline: bool) -> Caps:
        return self.offline if offline else self.interactive
