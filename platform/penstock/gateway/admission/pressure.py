"""Pressure on a version: the wait at its least busy worker, with hysteresis. Pure.

Trade-off: between ``enter_s`` and ``leave_s``, and for ``calm_s`` after the wait has become short, nothing changes. So
callers don't get long and short answers in turn while the queue swings around one line, and after a rush some are
degraded that need not have been.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureSettings:
    """Waits in seconds."""

    enter_s: float
    """The tier's promise of a first token: a wait this long has broken it already."""
    leave_share: float = 0.5
    calm_s: float = 5.0


class Pressure:
    """One version's state; begins without pressure."""

    __slots__ = ("_calm_since", "_settings", "is_on")

    def __init__(self, settings: PressureSettings) -> None:
        self._settings = settings
        self._calm_since: float | None = None
        self.is_on = False

    def look(self, wait_s: float, now: float) -> bool:
        """Take in the present wait (infinite if no worker serves) at monotonic second ``now``; return the state."""
        ours = self._settings
        if wait_s >= ours.enter_s:
            self.is_on, self._calm_since = True, None
        elif wait_s > ours.enter_s * ours.leave_share:
            self._calm_since = None
        elif self._calm_since is None:
            self._calm_since = now
        elif now - self._calm_since >= ours.calm_s:
            self.is_on = False
        return self.is_on
