"""What every store of idempotent answers promises, held against memory and a real Redis."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from penstock.adapters.memory.answers import MemoryAnswers
from penstock.adapters.redis import answers as redis_answers
from penstock.adapters.redis.answers import RedisAnswers
from penstock.adapters.redis.wire import Wire
from penstock.domain.clock import SystemClock
from penstock.domain.errors import Conflict
from penstock.domain.idempotency import AnswerStore, Claim, Piece, RecordKey
from tests.support.redis_server import RedisServer

KEY = RecordKey("k1")
HEAD = Piece(status=200, content_type="application/json", version="toy@1")
BODY = [Piece(data=b'{"a":'), Piece(data=b"1}")]
END = Piece(is_end=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Run one Redis for this module."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture(params=["memory", "redis"])
async def store(request: pytest.FixtureRequest, server: RedisServer) -> AsyncIterator[AnswerStore]:
    """Return each implementation in turn, empty."""
    if request.param == "memory":
        yield MemoryAnswers(SystemClock())
        return
    wire = Wire(server.url, patience_s=2.0)
    await wire.call("FLUSHALL")
    yield RedisAnswers(wire)
    await wire.close()


async def record(store: AnswerStore, pieces: list[Piece], pause_s: float = 0.0) -> None:
    for piece in pieces:
        await asyncio.sleep(pause_s)
        await store.append(KEY, piece)


async def read(store: AnswerStore) -> list[Piece]:
    return [piece async for piece in store.follow(KEY)]


async def test_the_first_request_answers_and_later_ones_replay(store: AnswerStore) -> None:
    """A complete record is replayed piece by piece, as often as asked."""
    assert await store.claim(KEY, "body") is Claim.MINE
    await record(store, [HEAD, *BODY, END])
    assert await store.claim(KEY, "body") is Claim.SAME
    assert await read(store) == [HEAD, *BODY, END]
    assert await read(store) == [HEAD, *BODY, END]


async def test_another_body_under_the_same_key_is_told_apart(store: AnswerStore) -> None:
    """The key belongs to the body it came with first."""
    await store.claim(KEY, "body")
    assert await store.claim(KEY, "other body") is Claim.OTHER


async def test_a_request_in_flight_is_joined(store: AnswerStore) -> None:
    """Followers get what is there at once, and the rest as it comes."""
    await store.claim(KEY, "body")
    await store.append(KEY, HEAD)
    reader = asyncio.create_task(read(store))
    await record(store, [*BODY, END], pause_s=0.05)
    assert await reader == [HEAD, *BODY, END]


async def test_exactly_one_of_many_at_once_answers(store: AnswerStore) -> None:
    """However many come together, one does the work."""
    claims = await asyncio.gather(*(store.claim(KEY, "body") for _ in range(50)))
    assert sorted(claims) == [Claim.GROWING] * 49 + [Claim.MINE]


async def test_a_released_key_is_free_again_and_followers_hear_of_it(store: AnswerStore) -> None:
    """An answer that broke off is not kept: who waited may try again."""
    await store.claim(KEY, "body")
    await store.append(KEY, HEAD)
    reader = asyncio.create_task(read(store))
    await asyncio.sleep(0.05)
    await store.release(KEY)
    with pytest.raises(Conflict, match="send it again"):
        await reader
    assert await store.claim(KEY, "body") is Claim.MINE


async def test_a_key_of_a_dead_gateway_frees_itself(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that shows no sign of life disappears, and the next request with its key does the work."""
    monkeypatch.setattr(redis_answers, "ALIVE_S", 0.2)
    wire = Wire(server.url, patience_s=2.0)
    await wire.call("FLUSHALL")
    store = RedisAnswers(wire)
    await store.claim(KEY, "body")
    await store.append(KEY, HEAD)
    with pytest.raises(Conflict):
        await read(store)
    assert await store.claim(KEY, "body") is Claim.MINE
    await wire.close()


async def test_a_gateway_whose_claim_lapsed_writes_no_more(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frozen past its claim and woken again, it neither writes into nor frees the record of who took over."""
    monkeypatch.setattr(redis_answers, "ALIVE_S", 0.1)
    wire = Wire(server.url, patience_s=2.0)
    await wire.call("FLUSHALL")
    frozen, heir = RedisAnswers(wire), RedisAnswers(wire)
    await frozen.claim(KEY, "body")
    await asyncio.sleep(0.15)
    assert await heir.claim(KEY, "body") is Claim.MINE
    with pytest.raises(Conflict):
        await frozen.append(KEY, Piece(data=b"late"))
    await frozen.release(KEY)
    await record(heir, [HEAD, *BODY, END])
    assert await read(heir) == [HEAD, *BODY, END]
    await wire.close()


async def test_a_crowd_may_follow_one_answer(store: AnswerStore) -> None:
    """Two hundred followers wait without using up the connections that decisions need."""
    await store.claim(KEY, "body")
    reading = [asyncio.create_task(read(store)) for _ in range(200)]
    await asyncio.sleep(0.2)
    await record(store, [HEAD, *BODY, END])
    assert all(pieces == [HEAD, *BODY, END] for pieces in await asyncio.gather(*reading))


async def test_memory_forgets_the_oldest_answers_first() -> None:
    """The process's store is bounded in bytes."""
    store = MemoryAnswers(SystemClock(), max_bytes=1000)
    for i in range(20):
        key = RecordKey(f"k{i}")
        await store.claim(key, "body")
        await store.append(key, Piece(status=200, data=b"x" * 100))
        await store.append(key, END)
    assert await store.claim(RecordKey("k19"), "body") is Claim.SAME
    assert await store.claim(RecordKey("k0"), "body") is Claim.MINE
