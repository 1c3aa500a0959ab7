"""Versions in the node's cache before workers of them come."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import VersionId
from penstock.worker.agent import ahead
from penstock.worker.agent.ahead import Ahead
from penstock.worker.artifacts.cache import Hold
from tests.support.gateways.dispatch import until

A, B = VersionId("a@1"), VersionId("b@1")


class Copies:
    """Gives holds of versions; those in ``missing`` find no room."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.missing, self.asked, self.given = set[VersionId](), list[VersionId](), dict[VersionId, Hold]()
        self.changes = 0

    async def obtain(self, version: VersionId) -> Hold:
        self.asked.append(version)
        await asyncio.sleep(0)
        if version in self.missing:
            raise StoreUnavailable("no room")
        self.given[version] = Hold(self._folder / version)
        return self.given[version]

    def changed(self) -> None:
        self.changes += 1

    def held(self) -> list[VersionId]:
        return [version for version, hold in self.given.items() if hold._fd >= 0]


@pytest.fixture
def copies(tmp_path: Path) -> Copies:
    return Copies(tmp_path)


@asynccontextmanager
async def running(copies: Copies) -> AsyncIterator[Ahead]:
    made = Ahead(obtain=copies.obtain, changed=copies.changed)
    task = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        task.cancel()


async def test_wanted_copies_are_fetched_once_and_held(copies: Copies) -> None:
    """In the given order, each told at once; one that nothing wants any more may be evicted."""
    async with running(copies) as made:
        made.want((A, B))
        await until(lambda: made.cached == (A, B))
        made.want((A, B))
        made.want((B,))
        await asyncio.sleep(0.01)
        assert (made.cached, copies.held()) == ((B,), [B])
    assert (copies.asked, copies.changes) == ([A, B], 2)


async def test_a_copy_without_room_stops_no_other_and_is_tried_again(
    copies: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second comes although the first found no room, which is asked for again later."""
    monkeypatch.setattr(ahead, "AGAIN_S", 0.01)
    copies.missing = {A}
    async with running(copies) as made:
        made.want((A, B))
        await until(lambda: made.cached == (B,) and copies.asked.count(A) > 2)
        copies.missing = set()
        await until(lambda: set(made.cached) == {A, B})
        assert copies.asked.count(B) == 1


async def test_a_copy_that_comes_too_late_is_let_go(copies: Copies) -> None:
    """A rollout that was aborted meanwhile holds no room."""
    async with running(copies) as made:
        made.want((A,))
        await until(lambda: bool(copies.asked))
        made.want(())
        await until(lambda: A in copies.given)
        await asyncio.sleep(0.01)
        assert (made.cached, copies.held()) == ((), [])
