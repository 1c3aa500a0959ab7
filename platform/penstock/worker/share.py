"""A request's share of its engine: a number of concurrent sequences; its other prompts wait until those have ended.

An engine would take all prompts of a list at once, and the next request would wait behind all of them.
"""

import asyncio
from collections import deque


class Share:
    """Waiting prompts enter first come, first served. Used on one event loop."""

    __slots__ = ("_inside", "_is_closed", "_most", "_waiting", "_wide")

    def __init__(self, most: int) -> None:
        self._most, self._inside, self._is_closed = most, 0, False
        self._wide = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, sequences: int) -> None:
        if self._is_closed:
            raise asyncio.CancelledError
        if not self._waiting and self._has_room_for(sequences):
            self._inside += sequences
            return
        room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((sequences, room))
        try:
            await room
            if self._is_closed:
                raise asyncio.CancelledError
        except asyncio.CancelledError:
            if room.cancelled():
                self._admit()
            else:  # it was let in and has left in the same moment
                self.give(sequences)
            raise

    def give(self, sequences: int) -> None:
        self._inside -= sequences
        self._admit()

    def widen(self, most: int) -> None:
        """Allow up to ``most`` sequences if that is above the share; 0 restores the share."""
        self._wide = most
        self._admit()

    def close(self) -> None:
        self._is_closed = True
        while self._waiting:
            self._waiting.popleft()[1].cancel()

    def _has_room_for(self, sequences: int) -> bool:
        return not self._inside or self._inside + sequences <= max(self._most, self._wide)

    def _admit(self) -> None:
        while self._waiting:
            sequences, room = self._waiting[0]
            if not room.done():
                if not self._has_room_for(sequences):
                    return
                self._inside += sequences
                room.set_result(None)
            self._waiting.popleft()
