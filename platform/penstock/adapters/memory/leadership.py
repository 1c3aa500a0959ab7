"""Who leads, in this process. Twin of `adapters.postgres.leadership`."""


class Seat:
    """The one place that candidates compete for."""

    def __init__(self) -> None:
        """Nobody sits."""
        self.holder: object | None = None


class MemoryLeadership:
    """One candidate."""

    def __init__(self, seat: Seat) -> None:
        """Take the seat that all candidates share."""
        self._seat = seat

    async def is_mine(self) -> bool:
        """Take it or confirm it."""
        if self._seat.holder is None:
            self._seat.holder = self
        return self._seat.holder is self

    async def resign(self) -> None:
        """Let it go."""
        if self._seat.holder is self:
            self._seat.holder = None
