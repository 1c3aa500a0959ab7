"""Pins of adapters, over the operators' API and in the answers to heartbeats."""

from dataclasses import asdict

import httpx
import msgspec

from penstock.domain.ids import VersionId
from penstock.domain.models.model import digest_of
from tests.support.controllers.in_memory import Room, bearer_of
from tests.support.samples import adapter_versions
from tests.support.samples import control_plane as things


async def test_an_adapter_is_pinned_to_its_bases_workers(operator: httpx.AsyncClient, room: Room) -> None:
    """Its base's workers hear of it with their heartbeats; one that is off, or one too many, is refused."""
    made = (adapter_versions.BASE.manifest, adapter_versions.manifest(), adapter_versions.manifest("json", seed="d"))
    pushed = [
        await operator.post(
            "/admin/v1/models", json={"manifest": asdict(one), "signature": f"signatures/{digest_of(one)}"}
        )
        for one in made
    ]
    base, pirate, other = [one.json()["id"] for one in pushed]
    await operator.put(f"/admin/v1/deployments/{base}", json={"replicas": 1})
    off = await operator.put(f"/admin/v1/deployments/{pirate}/pin")
    assert (off.status_code, f"is off: penstock models scale {pirate} 1" in off.text) == (404, True)
    for version in (pirate, other):
        await operator.put(f"/admin/v1/deployments/{version}", json={"replicas": 1})
    assert (await operator.put(f"/admin/v1/deployments/{pirate}/pin")).json()["pinned"] is True
    refused = await operator.put(f"/admin/v1/deployments/{other}/pin")
    assert (refused.status_code, "so 1 can be pinned" in refused.text) == (409, True)
    body = msgspec.json.encode(things.report("w1", VersionId(base)))
    async with room.client(bearer_of("w1", base), worker="w1", version=base) as worker:
        for pinned in ([pirate], []):
            room.orders.pin((await room.loop.tick()).pinned)
            answer = await worker.post("/internal/workers/heartbeat", content=body)
            assert answer.json()["pinned"] == pinned
            assert (await operator.delete(f"/admin/v1/deployments/{pirate}/pin")).status_code == 200
