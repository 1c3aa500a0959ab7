"""A stored table is decoded in slices: all of it, and never for long at a time."""

import asyncio
import random
import time
from collections.abc import Iterator
from dataclasses import replace

import msgspec
import pytest

from loadtests.fleets import table
from penstock.connectors.postgres import table_slices
from penstock.domain.fleet.table import EMPTY, Route, RoutingTable, Share
from penstock.domain.ids import Alias
from penstock.gateway.dispatch.breaker import Breakers
from penstock.gateway.routing.current import CurrentTable

WORKERS = 10_000


def follower() -> CurrentTable:
    """Return an empty table that breakers follow, as in a gateway."""
    current, breakers = CurrentTable(), Breakers(random.Random(1))
    current.on_change(lambda _, after: breakers.learn(after.table.versions, after.at))
    return current


def stretches_s(steps: Iterator[object]) -> list[float]:
    """Return the CPU seconds between any two turns of the loop."""
    found, done = [], False
    while not done:
        began = time.thread_time()
        done = next(steps, steps) is steps
        found.append(time.thread_time() - began)
    return found


@pytest.mark.parametrize("size", [0, 1, table_slices.SLICE, 2 * table_slices.SLICE + 1])
async def test_slices_make_the_same_table(size: int) -> None:
    """What comes out is what a decoder makes of it in one go."""
    made = replace(
        table(size), routes=(Route(alias=Alias("a"), shares=(Share(version=table(1).versions[0].id, weight=10_000),)),)
    )
    body = msgspec.json.encode(made)
    assert await table_slices.decode(body) == made == msgspec.json.decode(body, type=RoutingTable)
    assert await table_slices.decode(msgspec.json.encode(EMPTY)) == EMPTY


@pytest.mark.parametrize("text", [b"", b"{}", b'{"number":1,"made_at":0,"versions":[{}]}', b"\xff"])
async def test_what_is_no_table_is_refused(text: bytes) -> None:
    """A text that is not a table raises the decoder's error, as in one go."""
    with pytest.raises(msgspec.MsgspecError):
        await table_slices.decode(text)


def test_a_new_table_never_stops_the_loop_for_long() -> None:
    """With 10,000 workers no stretch of decoding a table and putting it in force takes a quarter of the whole (C12)."""
    body = msgspec.json.encode(table(WORKERS))

    async def take() -> None:
        new = await table_slices.decode(body)
        for _ in follower().steps(new, 0.0):
            await asyncio.sleep(0)

    rounds = [stretches_s(take().__await__()) for _ in range(3)]
    assert min(max(stretches) / sum(stretches) for stretches in rounds) < 0.25
