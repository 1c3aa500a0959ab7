"""``POST /penstock/usage``: what requests took of the engine, for gateways that have no answer to read it from."""

import msgspec

from penstock.domain.ids import RequestId
from penstock.worker.gate.meters import Meters
from penstock.worker.gate.queueing.constants import MOST_KNOWN

MOST_WAIT_S = 5.0


class UsageQuery(msgspec.Struct):
    """Which requests; for those that still run the answer waits, for so long at most, until they ended."""

    requests: list[str]
    wait_s: float = 0.0


async def answer(meters: Meters, body: bytes) -> bytes:
    """Return the counts by request as JSON, unknown ones left out; ``msgspec.MsgspecError`` for another body."""
    asked = msgspec.json.decode(body, type=UsageQuery)
    names = [RequestId(name) for name in asked.requests[:MOST_KNOWN]]
    return msgspec.json.encode(await meters.used(names, min(MOST_WAIT_S, asked.wait_s)))
