"""Orders of an agent of another release: what is missing has its default, and nothing ends in a fault."""

from dataclasses import replace

import pytest

from penstock.domain.tenancy.tenant import PLATFORM
from penstock.worker.gate.corridor import Gate
from tests.support.clock import ManualClock
from tests.unit.worker.gate.test_corridor import CONFIG, TICKET, Client, Engine

NEWER = b'{"rest": true, "newer": {}}'


@pytest.mark.parametrize("order", ["observed", "rest", "steps"])
@pytest.mark.parametrize(("body", "statuses"), [(NEWER, {200, 404}), (b"[7]", {400}), (b"{", {400})])
async def test_an_order_of_another_release_is_read_or_refused(
    clock: ManualClock, order: str, body: bytes, statuses: set[int]
) -> None:
    """A refusal tells the agent; a fault would end its loop."""
    client = Client(Gate(Engine(), CONFIG, clock))
    client.next = [{"type": "http.request", "body": body}]
    await client.call(f"/penstock/{order}", replace(TICKET, tenant=PLATFORM))
    assert client.status in statuses
