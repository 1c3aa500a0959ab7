"""Whether a failure was its caller's own, where that is not known at once: the platform asks the worker, then tells.

It must not know who asks, nor who counts.
"""

from collections.abc import Callable

Hear = Callable[[bool], None]


class Doubt:
    """Settled once, by whoever finds out; who wants to know is told then, or at once where it is known."""

    __slots__ = ("_hear", "is_own")

    def __init__(self) -> None:
        self.is_own: bool | None = None
        self._hear: list[Hear] = []

    def settle(self, *, is_own: bool) -> None:
        """It is known; the first word counts."""
        if self.is_own is not None:
            return
        self.is_own = is_own
        waiting, self._hear = self._hear, []
        for hear in waiting:
            hear(is_own)

    def then(self, hear: Hear) -> None:
        """Have this told whether it was the caller's own."""
        if self.is_own is None:
            self._hear.append(hear)
        else:
            hear(self.is_own)
