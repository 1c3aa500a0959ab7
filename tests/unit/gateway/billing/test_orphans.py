"""What requests took whose gateway died, as their workers still know it."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.domain.fleet.table import RoutingTable, VersionEntry, WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import KeyId, RequestId, TenantId, WorkerId
from penstock.domain.serving.report import Used
from penstock.domain.tenancy.ledger import Opening
from penstock.domain.tenancy.tenant import Priority
from penstock.domain.tokens import Usage
from penstock.gateway.billing.orphans import Orphans
from penstock.gateway.routing.current import staffed
from tests.support.samples import adapter_versions
from tests.support.samples.calls import VERSION


class Gates:
    """Each worker knows some; one does not answer."""

    def __init__(self, known: Mapping[str, Mapping[str, Used] | None]) -> None:
        self.known = known

    async def ask(
        self, worker: WorkerEntry, requests: Sequence[RequestId], *, within_s: float, wait_s: float = 0.0
    ) -> Mapping[RequestId, Used] | None:
        """Tell."""
        told = self.known[worker.id]
        return None if told is None else {RequestId(name): used for name, used in told.items() if name in requests}


def version(*workers: str) -> VersionEntry:
    """Return a version with these workers."""
    entries = [WorkerEntry(id=WorkerId(name), url=name, state=WorkerState.READY) for name in workers]
    return replace(VERSION, workers=tuple(entries))


def left(name: str) -> Opening:
    """Return what a dead gateway wrote of a request."""
    return Opening(
        request=RequestId(name),
        tenant=TenantId("t"),
        key=KeyId("k"),
        version=VERSION.id,
        digest=VERSION.digest,
        api="/v1/completions",
        priority=Priority.STANDARD,
        prompt_tokens=9,
        price=VERSION.price,
        opened_at=0.0,
        output_tokens=64,
    )


async def test_whoever_knows_most_of_a_dead_gateways_request_is_believed() -> None:
    """Finding 4: all workers of its version are asked; one that is silent or knows nothing hinders nobody."""
    tried, ran = Used(prompt_tokens=9, prompts=1), Used(prompt_tokens=9, output_tokens=30, sequences=1, prompts=1)
    gates = Gates({"w0": {"a": tried}, "w1": {"a": ran}, "w2": None, "w3": {}})
    orphans = Orphans(lambda: (version("w0", "w1", "w2", "w3"),), gates)
    assert await orphans.took([left("a"), left("b")]) == {"a": Usage(prompt_tokens=9, output_tokens=30)}


async def test_a_process_that_starts_waits_for_its_table() -> None:
    """The one who finishes a dead gateway's rows may not know the workers yet."""
    table: list[VersionEntry] = []
    orphans = Orphans(lambda: table, Gates({"w": {"a": Used(prompt_tokens=9, prompts=1)}}))
    asking = asyncio.create_task(orphans.took([left("a")]))
    await asyncio.sleep(0)
    table.append(version("w"))
    assert set(await asking) == {"a"}


async def test_nobody_claims_a_dead_gateways_request_for_more_than_it_could_cost() -> None:
    """A stolen worker's key: all workers of a version are asked, and one that claims the most has it at its bound."""
    lie = Used(prompt_tokens=10**9, cached_tokens=10**9, output_tokens=10**9, sequences=1, prompts=1)
    gates = Gates({"w0": {"a": Used(prompt_tokens=9, output_tokens=30)}, "w1": {"a": lie}})
    orphans = Orphans(lambda: (version("w0", "w1"),), gates)
    told = await orphans.took([left("a")])
    assert told == {"a": Usage(prompt_tokens=9, output_tokens=64, cached_tokens=9, exact=False)}


async def test_an_adapters_requests_are_asked_for_at_its_bases_workers() -> None:
    """A gateway reads an adapter with its base's workers: whoever finishes a dead one's rows finds them there."""
    base, adapter = version("w0"), adapter_versions.entry()
    table = staffed(RoutingTable(number=1, made_at=0.0, versions=(base, adapter)))
    ran = Used(prompt_tokens=9, output_tokens=30, sequences=1, prompts=1)
    orphans = Orphans(lambda: table.versions, Gates({"w0": {"a": ran}}))
    assert set(await orphans.took([replace(left("a"), version=adapter.id)])) == {"a"}
