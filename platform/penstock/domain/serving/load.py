"""The load that a gate reports of its engine."""

from dataclasses import dataclass

FIRST_PACE = 500.0
"""Tokens of service per second assumed before the engine's first work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """``queued_tokens``: prompt tokens accepted and not yet prefilled, plus expected output of running requests."""

    running: int = 0
    waiting: int = 0
    queued_tokens: int = 0
    kv_used_ratio: float = 0.0
    wait_s: float = 0.0
    """Seconds that the work queued at the gate will take, at its pace."""
    pace_per_s: float = 0.0
    """Tokens of service per second with the requests inside, by step model and late first tokens; 0: not told."""
