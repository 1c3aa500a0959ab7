"""Exponential backoff after failures of a server, or the wait that the server asks for."""

import random
from dataclasses import dataclass, field

LONGEST_S = 60.0


@dataclass(slots=True, kw_only=True)
class Backoff:
    """Waits from the upper half of their range, so that many clients do not return together."""

    first_s: float = 1.0
    longest_s: float = LONGEST_S
    chance: random.Random = field(default_factory=random.Random)
    _failures: int = 0

    def worked(self) -> None:
        self._failures = 0

    def failed(self, wanted_s: float = 0.0) -> float:
        """Wait at least the time that the server asks for, within bounds."""
        wait_s = min(self.longest_s, self.first_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return min(self.longest_s, max(wanted_s, wait_s * self.chance.uniform(0.5, 1.0)))
