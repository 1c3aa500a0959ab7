"""Records whether a caller caused a failure, if only the platform's probe of the worker can tell."""

from collections.abc import Callable

Hear = Callable[[bool], None]


class Doubt:
    """Settled once; listeners are called then, or at once if it is settled."""

    __slots__ = ("_hear", "is_own")

    def __init__(self) -> None:
        self.is_own: bool | None = None
        self._hear: list[Hear] = []

    def settle(self, *, is_own: bool) -> None:
        if self.is_own is not None:
            return
        self.is_own = is_own
        waiting, self._hear = self._hear, []
        for hear in waiting:
            hear(is_own)

    def then(self, hear: Hear) -> None:
        if self.is_own is None:
            self._hear.append(hear)
        else:
            hear(self.is_own)
