"""Settings of a gateway's router: weights, samples, and times in refusals."""

from dataclasses import dataclass, field

from penstock.gateway.routing.scorers import Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSettings:
    """``choices`` workers are drawn, up to ``rounds`` times while fewer than ``enough`` are open."""

    choices: int = 6
    rounds: int = 4
    enough: int = 2
    watched: int = 64
    """Workers sampled to estimate a version's load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterSettings:
    """Settings of the router; ``max_blocks`` bounds each version's prefix index.

    ``retry_after_s`` is used if no start of the version was ever timed: about the time of a small model on a CPU.
    ``notice_s`` is added for a start that has not begun, since the loss must be detected first.
    """

    weights: Weights = field(default_factory=Weights)
    sample: SampleSettings = field(default_factory=SampleSettings)
    max_waiting: int = 256
    retry_after_s: float = 20.0
    notice_s: float = 2.0
    most_retry_after_s: float = 60.0
    max_blocks: int = 50_000
