"""What counts once: the same thing within a while is one event, however often it is seen."""

from collections.abc import Hashable


class Once:
    """Keys that were counted lately. Memory is bounded: while it is full of recent ones, nothing new counts."""

    def __init__(self, span_s: float, most: int) -> None:
        """Let a key count once in ``span_s`` seconds, and remember at most ``most`` keys."""
        self._span_s, self._most = span_s, most
        self._at: dict[Hashable, float] = {}

    def counts(self, key: Hashable, now: float) -> bool:
        """Tell whether this one counts (monotonic seconds), and remember it if it does."""
        at = self._at.get(key)
        if at is not None and now - at < self._span_s:
            return False
        if len(self._at) >= self._most:
            self._forget(now)
            if len(self._at) >= self._most:
                return False
        self._at.pop(key, None)
        self._at[key] = now
        return True

    def _forget(self, now: float) -> None:
        """Forget what is over; the oldest come first."""
        over = [key for key, at in self._at.items() if now - at >= self._span_s]
        for key in over:
            del self._at[key]
