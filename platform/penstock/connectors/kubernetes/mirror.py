"""Mirror of the objects of one kind: listed once, then watched, listed again when the watch is lost.

Mirrored objects may be stale; ``is_known`` tells whether the server answers. Only a deletion event or a complete list
removes an object; a failed list removes none.
"""

import asyncio
from collections.abc import Callable

from penstock.connectors.kubernetes.answers import BOOKMARK, GONE, ApiRefused, Json
from penstock.connectors.kubernetes.backoff import Backoff
from penstock.connectors.kubernetes.client import OPENED, NamespaceApi
from penstock.connectors.kubernetes.kinds import ObjectKind
from penstock.telemetry.logs import logger

REST_S = 0.1
"""Seconds between the end of a watch and the next, for a server that ends each at once."""
OnChange = Callable[[Json | None, Json | None], None]
"""Takes an object before and after; None if it did not exist, or no longer does."""


class Mirror:
    def __init__(
        self, api: NamespaceApi, kind: ObjectKind, selector: str, on_change: OnChange, backoff: Backoff
    ) -> None:
        self._api, self._kind, self._selector, self._on_change = api, kind, selector, on_change
        self._backoff = backoff
        self._since = ""
        self.objects: dict[str, Json] = {}
        self.is_known = False

    async def follow(self) -> None:
        while True:
            try:
                await self._once()
                await asyncio.sleep(REST_S)
            except ApiRefused as refusal:
                self._lost(refusal)
                await asyncio.sleep(self._backoff.failed(refusal.retry_after_s))

    async def _once(self) -> None:
        if not self._since:
            objects, since = await self._api.listed(self._kind, self._selector)
            self._replace({one["metadata"]["name"]: one for one in objects})
            self._since = since
        async for kind, one in self._api.watch(self._kind, self._selector, self._since):
            self.is_known = True
            if kind == OPENED:
                continue
            self._backoff.worked()
            if kind != BOOKMARK:
                self._put(one["metadata"]["name"], None if kind == "DELETED" else one)
            self._since = one["metadata"]["resourceVersion"]
        self._backoff.worked()

    def _lost(self, refusal: ApiRefused) -> None:
        if refusal.status == GONE and self._since:
            self._since = ""
            return
        if self.is_known:
            reason = f"{refusal.status} {refusal.message}"
            logger().warning("cluster_not_heard", kind=self._kind.name, reason=reason)
        self.is_known = False

    def _replace(self, found: dict[str, Json]) -> None:
        for name in self.objects.keys() - found.keys():
            self._put(name, None)
        for name, one in found.items():
            self._put(name, one)

    def _put(self, name: str, after: Json | None) -> None:
        before = self.objects.get(name)
        if after is None:
            self.objects.pop(name, None)
        else:
            self.objects[name] = after
        if before != after:
            self._on_change(before, after)
