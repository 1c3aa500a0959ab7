"""An alias at a version that serves, and versions that might follow it: over the operators' API, in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from typing import Any

import httpx
import msgspec

from penstock.domain.ids import VersionId
from penstock.domain.models.model import Manifest, digest_of
from penstock.domain.rollout.rollout import STAGES
from penstock.domain.tenancy.tenant import Role
from tests.support.controllers.in_memory import Room
from tests.support.samples import control_plane as things

WHY = {"reason": "as agreed"}
SHARED = msgspec.to_builtins(STAGES[1:])
"""Without the shadow stage: the first share is at once."""


class Site:
    """An alias at a version that serves, and versions that might follow it."""

    def __init__(self, room: Room, operator: httpx.AsyncClient) -> None:
        self.room, self.operator = room, operator

    async def version(self, manifest: Manifest, *, workers: int = 1) -> str:
        """Register and deploy one; a worker of it reports that it serves."""
        body = {"manifest": asdict(manifest), "signature": f"signatures/{digest_of(manifest)}"}
        version = str((await self.operator.post("/admin/v1/models", json=body)).json()["id"])
        await self.operator.put(f"/admin/v1/deployments/{version}", json={"replicas": workers})
        if workers:
            self.room.heartbeats.take(things.report(f"w-{version}", VersionId(version)))
        return version

    async def adapter(self, manifest: Manifest, *, on: bool = True) -> str:
        """Register an adapter, and turn it on."""
        version = await self.version(manifest, workers=0)
        assert (
            await self.operator.put(f"/admin/v1/deployments/{version}", json={"replicas": int(on)})
        ).status_code == 200
        return version

    async def lead(self, *versions: str) -> None:
        weight = 10_000 // len(versions)
        shares = {"shares": [{"version": one, "weight": weight} for one in versions]}
        assert (await self.operator.put("/admin/v1/aliases/chat", json=shares)).status_code == 200

    async def start(self, candidate: str, **more: object) -> httpx.Response:
        return await self.operator.post(
            "/admin/v1/rollouts", json={"alias": "chat", "candidate": candidate, "stages": SHARED} | more
        )

    async def shares(self) -> dict[str, int]:
        routes = (await self.operator.get("/admin/v1/aliases")).json()["aliases"]
        return {share["version"]: share["weight"] for share in routes[0]["shares"]}


@asynccontextmanager
async def chat(room: Room) -> AsyncIterator[Site]:
    """Yield the alias ``chat`` at one version, and an operator."""
    async with room.client(await room.key(Role.ADMIN)) as client:
        for tenant in ("acme", "closed"):
            await client.post("/admin/v1/tenants", json={"id": tenant})
        await client.post("/admin/v1/keys", json={"tenant": "closed", "models": ["other"]})
        found = Site(room, client)
        await found.lead(await found.version(things.manifest()))
        yield found


def like(seed: str = "c", **changes: Any) -> Manifest:  # noqa: ANN401  a manifest's own fields
    """Return a manifest that differs from the incumbent's by its weights, and by these."""
    return replace(things.manifest(seed=seed), **changes)
