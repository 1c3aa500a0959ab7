"""Retention: bytes of what is over go first, then rows, and what has no owner goes too, whatever breaks meanwhile."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from penstock.connectors.payloads.folder import FolderObjects
from penstock.connectors.payloads.store import SealedPayloads
from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import TenantId
from penstock.domain.jobs.errors import PayloadGone
from penstock.domain.jobs.ids import ObjectId
from penstock.domain.jobs.payload import Expired, object_id
from penstock.jobs.retention import GROUP, ORPHAN_S, SWEEP_EVERY_S, Retention
from tests.support.sealing import FixedKeys

ACME = TenantId("acme")
OLD_S = 2 * ORPHAN_S


@dataclass
class Owners:
    """Rows in memory: owners by id, with the second at which each is over."""

    kind: str = "file"
    over: dict[str, float] = field(default_factory=dict)

    async def expired(self, now: float, limit: int) -> Sequence[Expired]:
        found = [one for one, at in self.over.items() if at <= now][:limit]
        return [Expired(one, (object_id(self.kind, one),)) for one in found]

    async def forget(self, owners: Sequence[str], now: float) -> None:
        self.over = {one: at for one, at in self.over.items() if one not in owners}

    async def known(self, owners: Sequence[str]) -> frozenset[str]:
        return frozenset(self.over) & frozenset(owners)


class Broken(SealedPayloads):
    """Deletes nothing of some objects."""

    broken: frozenset[str] = frozenset()

    async def delete(self, name: ObjectId) -> None:
        if name in self.broken:
            raise StoreUnavailable
        await super().delete(name)


@pytest.fixture
async def payloads(tmp_path: Path) -> AsyncIterator[Broken]:
    made = Broken(FolderObjects(tmp_path), FixedKeys())
    yield made
    made.close()


async def keep(payloads: SealedPayloads, *names: ObjectId) -> None:
    for name in names:
        await payloads.put(ACME, name, b"x")


async def left(payloads: SealedPayloads, names: Iterable[ObjectId]) -> list[str]:
    found = []
    for name in names:
        try:
            await payloads.get(ACME, name)
        except PayloadGone:
            continue
        found.append(name.split("/")[1])
    return found


async def test_bytes_go_with_their_time(payloads: Broken) -> None:
    """What is over is gone from the store and then from its rows; what is not stays."""
    owners = Owners(over={"a": 10.0, "b": 20.0, "c": 30.0})
    names = [object_id("file", one) for one in owners.over]
    await keep(payloads, *names)
    await Retention(payloads, [owners]).step(20.0)
    assert await left(payloads, names) == ["c"]
    assert owners.over == {"c": 30.0}


async def test_a_store_that_fails_keeps_the_row(payloads: Broken) -> None:
    """An object that can't be deleted keeps its row for the next round, and holds up nothing else."""
    owners, others = Owners(over={"a": 1.0, "b": 1.0, "c": 1.0}), Owners(kind="jobs", over={"j": 1.0})
    names = [*(object_id("file", one) for one in "abc"), object_id("jobs", "j")]
    await keep(payloads, *names)
    payloads.broken = frozenset({names[0]})
    retention = Retention(payloads, [owners, others])
    with pytest.raises(StoreUnavailable):
        await retention.step(2.0)
    assert (owners.over, others.over) == ({"a": 1.0}, {})
    assert await left(payloads, names) == ["a"]
    payloads.broken = frozenset()
    await retention.step(3.0)
    assert (owners.over, await left(payloads, names)) == ({}, [])


async def test_a_killed_round_is_done_again(payloads: Broken) -> None:
    """A round that ended between bytes and rows leaves rows whose bytes are gone, which the next round drops."""
    owners = Owners(over={"a": 1.0})
    await keep(payloads, object_id("file", "a"))
    await payloads.delete(object_id("file", "a"))
    await asyncio.gather(Retention(payloads, [owners]).step(2.0), Retention(payloads, [owners]).step(2.0))
    assert owners.over == {}


async def test_many_are_taken_in_one_step(payloads: Broken) -> None:
    """A step goes on until nothing is over."""
    owners = Owners(over={f"o{number}": 1.0 for number in range(2 * GROUP + 1)})
    await Retention(payloads, [owners]).step(2.0)
    assert owners.over == {}


async def test_orphans_go_once_they_are_old(payloads: Broken, tmp_path: Path) -> None:
    """Objects without a row, and unfinished ones, go after their time; those of an unknown kind stay."""
    now, owners = time.time(), Owners(over={"kept": float("inf")})
    names = [object_id("file", "kept"), object_id("file", "orphan"), object_id("news", "orphan")]
    await keep(payloads, *names)
    draft = payloads._objects.begin("file/draft")
    draft.write(b"x")
    retention = Retention(payloads, [owners])
    await retention.step(now)
    assert await left(payloads, names) == ["kept", "orphan", "orphan"]
    files = files_in(tmp_path)
    for path in files:
        os.utime(path, (now - OLD_S, now - OLD_S))
    await retention.step(now + SWEEP_EVERY_S - 1)
    assert await left(payloads, names) == ["kept", "orphan", "orphan"]
    await retention.step(now + SWEEP_EVERY_S)
    assert await left(payloads, names) == ["kept", "orphan"]
    assert (len(files), len(files_in(tmp_path))) == (4, 2)
    draft.abort()


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
