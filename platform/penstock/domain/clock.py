"""Time as an argument: policies take a ``Clock`` or plain seconds and never read the system's clock."""

import time
from typing import Protocol

DAY_S = 86_400


class Clock(Protocol):
    """The simulator implements both in virtual time."""

    def monotonic(self) -> float:
        """Seconds that never go backwards; origin arbitrary."""
        ...

    def now(self) -> float:
        """Seconds since the Unix epoch; may jump."""
        ...


class SystemClock:
    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> float:
        return time.time()
