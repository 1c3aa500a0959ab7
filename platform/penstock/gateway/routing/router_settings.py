"""Settings of a gateway's router: its samples, and the requests that may wait at a worker."""

from dataclasses import dataclass

ROUNDS, ENOUGH = 4, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSettings:
    """``choices`` are drawn, up to ``ROUNDS`` times while fewer than ``ENOUGH`` are open."""

    choices: int = 6
    watched: int = 64
    """Workers sampled to estimate a version's load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterSettings:
    sample: SampleSettings = SampleSettings()
    max_waiting: int = 256
