"""Why an engine died, and whether to try again: pure policies."""

import random
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

_SIGKILL = -9


class Cause(StrEnum):
    """Why an engine had to be restarted: the metric's ``reason``."""

    CRASH = "crash"
    HANG = "hang"
    OUT_OF_MEMORY = "out_of_memory"


def cause_of(exit_code: int | None, *, oom_kills: int | None) -> Cause:
    """Judge an unwanted end.

    ``oom_kills`` is the number of processes that the kernel killed for memory meanwhile, None if it does not say; then
    a SIGKILL from outside counts as one. The victim may be the engine's core: then the exit code is an ordinary one.
    """
    if oom_kills:
        return Cause.OUT_OF_MEMORY
    if exit_code == _SIGKILL and oom_kills is None:
        return Cause.OUT_OF_MEMORY
    return Cause.CRASH


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """Backoff doubles from ``first_s`` to ``longest_s``; ``failures`` within ``window_s`` mean a crash loop."""

    first_s: float = 0.25
    longest_s: float = 15.0
    failures: int = 5
    window_s: float = 180.0


@dataclass(slots=True)
class Restarts:
    policy: RestartPolicy = field(default_factory=RestartPolicy)
    _failed_at: deque[float] = field(default_factory=deque)

    def failed(self, now: float, chance: random.Random) -> float | None:
        """Note a failure; return the seconds to wait before the next try, None if trying is pointless."""
        while self._failed_at and now - self._failed_at[0] > self.policy.window_s:
            self._failed_at.popleft()
        self._failed_at.append(now)
        count = len(self._failed_at)
        if count >= self.policy.failures:
            return None
        return min(self.policy.longest_s, self.policy.first_s * 2.0 ** (count - 1)) * chance.uniform(0.5, 1.0)
