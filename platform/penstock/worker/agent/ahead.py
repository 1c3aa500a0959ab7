"""Fetches versions into the node's cache before workers of them come: one after the other, beside a serving engine."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from penstock.domain.errors import ArtifactRefused, StoreUnavailable
from penstock.domain.ids import VersionId
from penstock.telemetry.logs import logger
from penstock.worker.artifacts.cache import Hold

AGAIN_S = 60.0
"""Seconds until a version that was refused, or found no room, is tried again."""


@dataclass(slots=True, kw_only=True)
class Ahead:
    obtain: Callable[[VersionId], Awaitable[Hold]]
    changed: Callable[[], None]
    _wanted: tuple[VersionId, ...] = ()
    _wanted_anew: asyncio.Event = field(default_factory=asyncio.Event)
    _holds: dict[VersionId, Hold] = field(default_factory=dict)

    @property
    def cached(self) -> tuple[VersionId, ...]:
        return tuple(self._holds)

    def want(self, versions: tuple[VersionId, ...]) -> None:
        if versions != self._wanted:
            self._wanted = versions
            for gone in self._holds.keys() - set(versions):
                self._holds.pop(gone).release()
            self._wanted_anew.set()

    async def run(self) -> None:
        while True:
            self._wanted_anew.clear()
            for version in [one for one in self._wanted if one not in self._holds]:
                await self._fetch(version)
            missing = self._holds.keys() != set(self._wanted)
            with suppress(TimeoutError):
                async with asyncio.timeout(AGAIN_S if missing else None):
                    await self._wanted_anew.wait()

    async def _fetch(self, version: VersionId) -> None:
        try:
            hold = await self.obtain(version)
        except (ArtifactRefused, StoreUnavailable) as error:
            logger().info("not_fetched_ahead", version=version, reason=error.message)
            return
        if version not in self._wanted:
            hold.release()
            return
        self._holds[version] = hold
        logger().info("fetched_ahead", version=version)
        self.changed()
