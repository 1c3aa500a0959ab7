"""Rate-limited log of refused peers: a burst of lines, then one every few seconds with the count of those left out.

Left-out lines are counted, not queued: a flood costs neither memory nor disk.
"""

from penstock.domain.clock import Clock
from penstock.telemetry import logs

LINES_AT_ONCE = 10
LINE_EVERY_S = 6.0


class Refusals:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines, self._since = float(LINES_AT_ONCE), clock.monotonic()
        self._untold = 0

    def tell(self, reason: str, address: str = "") -> None:
        """Log a refused peer, or count it for the next line."""
        now = self._clock.monotonic()
        self._lines = min(float(LINES_AT_ONCE), self._lines + (now - self._since) / LINE_EVERY_S)
        self._since = now
        if self._lines < 1:
            self._untold += 1
            return
        self._lines -= 1
        untold, self._untold = self._untold, 0
        where = {"address": address} if address else {}
        logs.logger().warning("peer_refused", reason=reason, **where, **({"count": untold} if untold else {}))
