"""The same event within a while counts once."""

from collections.abc import Hashable


class Once:
    """Keys counted in the last ``span_s`` seconds, ``most`` at once: while it is full, nothing new counts."""

    def __init__(self, span_s: float, most: int) -> None:
        self._span_s, self._most = span_s, most
        self._at: dict[Hashable, float] = {}

    def counts(self, key: Hashable, now: float) -> bool:
        """Tell whether this key counts (monotonic seconds), and remember it."""
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
        over = [key for key, at in self._at.items() if now - at >= self._span_s]
        for key in over:
            del self._at[key]
