"""Reports the versions with held requests to the controllers: at once, and every second while any request is held.

Nothing is stored: a lost report is repeated by the next one, and reports end with the last held request.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import VersionId
from penstock.lateness import timeout

EVERY_S = 1.0
WITHIN_S = 2.0
"""Seconds to accept a report: a caller waits for the answer."""


class Want(NamedTuple):
    requests: int = 0
    tokens: int = 0


class Teller(Protocol):
    async def tell(self, version: VersionId, requests: int, tokens: int) -> None:
        """Report the requests and tokens held for a version now; raises ``StoreUnavailable`` without a connection."""
        ...


@dataclass(slots=True)
class WakeDemand:
    held: Callable[[], Mapping[VersionId, Want]] = dict
    away: Callable[[], None] = lambda: None
    """Called when no controller can be reached."""
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _passing: dict[VersionId, Want] = field(default_factory=dict)
    """Demand of requests that are not held: another version answers them, or their deadline is too early."""
    _told: frozenset[VersionId] = frozenset()

    def begin(self, version: VersionId) -> None:
        if version not in self._told:
            self._news.set()

    def note(self, version: VersionId, tokens: int) -> None:
        before = self._passing.get(version, Want())
        self._passing[version] = Want(before.requests + 1, before.tokens + tokens)
        self.begin(version)

    async def run(self, teller: Teller) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S):
                    await self._news.wait()
            self._news.clear()
            await self.tell(teller)

    async def tell(self, teller: Teller) -> None:
        passing, self._passing = self._passing, {}
        wanted = {**passing, **self.held()}
        self._told = frozenset(wanted)
        try:
            async with timeout(WITHIN_S):
                for version, want in wanted.items():
                    await teller.tell(version, want.requests, want.tokens)
        except (StoreUnavailable, TimeoutError):
            self._told = frozenset()
            self.away()
