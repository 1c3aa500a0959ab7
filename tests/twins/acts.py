"""Administrative acts on the memory twins: one at a time, undone if they fail. Twin of ``Database.act``."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any


class MemoryActs:
    """Acts on these stores, which hold dicts and lists of frozen values."""

    def __init__(self, *stores: object) -> None:
        self._stores = stores
        self._alone = asyncio.Lock()

    @asynccontextmanager
    async def act(self) -> AsyncIterator[None]:
        """Run one act alone; what it wrote is taken back if it raises."""
        async with self._alone:
            before = [{name: _copied(value) for name, value in vars(store).items()} for store in self._stores]
            try:
                yield
            except BaseException:
                for store, kept in zip(self._stores, before, strict=True):
                    vars(store).update(kept)
                raise


def _copied(value: Any) -> Any:  # noqa: ANN401  whatever a store holds
    if isinstance(value, dict):
        return {name: _copied(one) for name, one in value.items()}
    return value.copy() if isinstance(value, list | set) else value
