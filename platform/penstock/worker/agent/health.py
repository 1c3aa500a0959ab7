"""Causes of an engine's death, and the restart policy: pure."""

import random
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

_SIGKILL = -9


class Cause(StrEnum):
    CRASH = "crash"
    HANG = "hang"
    OUT_OF_MEMORY = "out_of_memory"


def cause_of(exit_code: int | None, *, oom_kills: int | None) -> Cause:
    """``oom_kills`` is the kernel's number meanwhile, None if unknown; a SIGKILL from outside then counts as one. The
    victim may be the engine's core: the exit code is an ordinary one then.
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
        while self._failed_at and now - self._failed_at[0] > self.policy.window_s:
            self._failed_at.popleft()
        self._failed_at.append(now)
        count = len(self._failed_at)
        if count >= self.policy.failures:
            return None
        return min(self.policy.longest_s, self.policy.first_s * 2.0 ** (count - 1)) * chance.uniform(0.5, 1.0)
