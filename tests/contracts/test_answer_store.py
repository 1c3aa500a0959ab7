"""What every store of idempotent answers promises, held against memory and a real Redis."""

import asyncio
import hmac
from collections.abc import AsyncIterator, Iterator

import msgspec
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from penstock.connectors.memory.answers import MemoryAnswers
from penstock.connectors.redis import answers as redis_answers
from penstock.connectors.redis.answers import RedisAnswers
from penstock.connectors.redis.wire import Wire
from penstock.domain.clock import SystemClock
from penstock.domain.errors import Conflict
from penstock.domain.ids import TenantId
from penstock.domain.serving.idempotency import KEEP_S, AnswerQuota, AnswerStore, Claim, Piece, RecordKey
from tests.support.clock import ManualClock
from tests.support.sealing import FixedKeys
from tests.support.stores.redis_server import RedisServer

ACME, SHOP = TenantId("acme"), TenantId("shop")
KEY = RecordKey(ACME, "k1")
LOCAL_KEY = b"k" * 32
SMALL = AnswerQuota(max_bytes=10_000, max_records=8)
HEAD = Piece(status=200, content_type="application/json", version="toy@1")
BODY = [Piece(data=b'{"a":'), Piece(data=b"1}")]
END = Piece(is_end=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture(params=["memory", "redis"])
async def store(request: pytest.FixtureRequest, server: RedisServer) -> AsyncIterator[AnswerStore]:
    """Return each implementation in turn, empty, with a small quota for each tenant."""
    if request.param == "memory":
        yield MemoryAnswers(SystemClock(), SMALL)
        return
    wire = Wire(server.url, patience_s=2.0)
    await wire.call("FLUSHALL")
    yield RedisAnswers(wire, FixedKeys(), LOCAL_KEY, SMALL)
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


async def test_a_record_is_seen_from_its_claim_to_its_release(store: AnswerStore) -> None:
    """A key has a record while its answer grows and once it is complete, and no other tenant's key has."""
    assert not await store.has(KEY)
    await store.claim(KEY, "body")
    assert await store.has(KEY)
    assert not await store.has(RecordKey(SHOP, KEY.name))
    await store.release(KEY)
    assert not await store.has(KEY)
    await store.claim(KEY, "body")
    await record(store, [HEAD, *BODY, END])
    assert await store.has(KEY)


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
    """An answer that broke off is not kept: waiting requests may try again."""
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
    store = RedisAnswers(wire, FixedKeys(), LOCAL_KEY)
    await store.claim(KEY, "body")
    await store.append(KEY, HEAD)
    with pytest.raises(Conflict):
        await read(store)
    assert await store.claim(KEY, "body") is Claim.MINE
    await wire.close()


async def test_a_gateway_whose_claim_lapsed_writes_no_more(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frozen past its claim and woken again, it neither writes into nor frees its successor's record."""
    monkeypatch.setattr(redis_answers, "ALIVE_S", 0.1)
    wire = Wire(server.url, patience_s=2.0)
    await wire.call("FLUSHALL")
    frozen, heir = (RedisAnswers(wire, FixedKeys(), LOCAL_KEY) for _ in range(2))
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


async def keep(store: AnswerStore, key: RecordKey, size_bytes: int = 1_000) -> Claim:
    """Answer under a key with this number of bytes, and return what was found there."""
    claim = await store.claim(key, "body")
    if claim is Claim.MINE:
        for piece in (HEAD, Piece(data=b"x" * size_bytes), END):
            await store.append(key, piece)
    return claim


def keys(tenant: TenantId, many: int) -> list[RecordKey]:
    """Return this number of keys of a tenant."""
    return [RecordKey(tenant, f"{tenant}-{n}") for n in range(many)]


@pytest.mark.parametrize(("size_bytes", "many"), [(3_000, 40), (1, 40)])
async def test_a_flood_of_answers_costs_the_neighbour_nothing(store: AnswerStore, size_bytes: int, many: int) -> None:
    """Finding 11: a tenant beyond its quota, in bytes or in records, loses its own oldest answers and no others."""
    shop, acme = keys(SHOP, 3), keys(ACME, many)
    for key in shop:
        await keep(store, key)
    for key in acme:
        assert await keep(store, key, size_bytes) is Claim.MINE
    assert [await store.claim(key, "body") for key in shop] == [Claim.SAME] * 3
    assert await store.claim(acme[-1], "body") is Claim.SAME
    assert await store.claim(acme[0], "body") is Claim.MINE


async def test_a_quota_is_held_to_the_byte(store: AnswerStore) -> None:
    """Of answers that together fit all are kept; one more and the oldest has gone."""
    fits = keys(ACME, 3)
    for key in fits:
        await keep(store, key, 2_500)
    assert [await store.claim(key, "body") for key in fits] == [Claim.SAME] * 3
    await keep(store, RecordKey(ACME, "more"), 2_500)
    assert [await store.claim(key, "body") for key in fits[1:]] == [Claim.SAME] * 2
    assert await store.claim(fits[0], "body") is Claim.MINE


async def test_what_is_released_takes_no_room(store: AnswerStore) -> None:
    """Finding 11: a hundred refused requests with keys push out nothing."""
    await keep(store, KEY, 2_000)
    for key in keys(ACME, 100):
        assert await store.claim(key, "body") is Claim.MINE
        await store.append(key, Piece(data=b"x" * 3_000))
        await store.release(key)
    assert await store.claim(KEY, "body") is Claim.SAME


async def test_answers_under_way_are_never_pushed_out(store: AnswerStore) -> None:
    """With nothing but answers under way a tenant's next one finds no room, and another tenant's finds its own."""
    acme = keys(ACME, SMALL.max_records + 1)
    assert [await store.claim(key, "body") for key in acme] == [Claim.MINE] * SMALL.max_records + [Claim.FULL]
    assert await keep(store, keys(SHOP, 1)[0]) is Claim.MINE
    await store.append(acme[0], HEAD)
    await store.append(acme[0], END)
    assert await store.claim(acme[-1], "body") is Claim.MINE


async def test_an_answer_that_finds_no_room_on_its_way_is_given_up(store: AnswerStore) -> None:
    """It is passed on and not kept: its writer hears so, its followers too, and the key is free."""
    await store.claim(KEY, "body")
    await store.append(KEY, HEAD)
    reader = asyncio.create_task(read(store))
    await asyncio.sleep(0.05)
    with pytest.raises(Conflict):
        await store.append(KEY, Piece(data=b"x" * 2 * SMALL.max_bytes))
    with pytest.raises(Conflict):
        await reader
    assert await keep(store, KEY) is Claim.MINE


async def test_the_same_words_of_two_tenants_are_two_keys(store: AnswerStore) -> None:
    """Records are their tenant's."""
    assert await keep(store, RecordKey(ACME, "same")) is Claim.MINE
    assert await keep(store, RecordKey(SHOP, "same")) is Claim.MINE


async def test_redis_holds_no_plain_text(server: RedisServer) -> None:
    """K1: neither an answer's words, nor its type, nor a fingerprint that could be guessed from a body."""
    wire = Wire(server.url, patience_s=2.0)
    await wire.call("FLUSHALL")
    store = RedisAnswers(wire, FixedKeys(), LOCAL_KEY)
    await store.claim(KEY, "fingerprint")
    await record(store, [HEAD, Piece(data=b"the patient's diagnosis"), Piece(data=b"the patient's diagnosis"), END])
    names = await wire.call("KEYS", "*")
    assert isinstance(names, list)
    dumps = [bytes(name) + bytes(await wire.call("DUMP", name) or b"") for name in names if isinstance(name, bytes)]  # type: ignore[arg-type]
    assert len(dumps) == 4
    told = [word for word in (b"diagnosis", b"json", b"toy@1", b"fingerprint") if any(word in dump for dump in dumps)]
    assert told == []
    assert (await read(store))[1].data == b"the patient's diagnosis"
    await wire.close()


@pytest.mark.parametrize("change", ["other key", "shredded", "altered", "swapped", "of another tenant"])
async def test_what_does_not_open_is_dropped(server: RedisServer, change: str) -> None:
    """An answer that was altered, or whose key is gone, is never passed on; its idempotency key is free again."""
    wire = Wire(server.url, patience_s=2.0)
    await wire.call("FLUSHALL")
    keys = FixedKeys()
    store, other = RedisAnswers(wire, keys, LOCAL_KEY), RedisAnswers(wire, FixedKeys(b"o" * 32), LOCAL_KEY)
    await store.claim(KEY, "body")
    await record(store, [HEAD, *BODY, END])
    here, there = (f"penstock:answers:{{{tenant}}}:k1:" for tenant in (ACME, SHOP))
    if change == "altered":
        await wire.call("XADD", f"{here}body", "*", "p", b"x" * 40)
        await wire.call("XTRIM", f"{here}body", "MAXLEN", 1)
    elif change == "swapped":
        entries = await wire.call("XRANGE", f"{here}body", "-", "+")
        await wire.call("DEL", f"{here}body")
        for _, fields in [entries[0], entries[2], entries[1], entries[3]]:  # type: ignore[index, misc]
            await wire.call("XADD", f"{here}body", "*", *fields)  # type: ignore[misc]
    elif change == "of another tenant":
        await wire.call("RENAME", f"{here}body", f"{there}body")
        await wire.call("RENAME", f"{here}claim", f"{there}claim")
    keys.is_shredded = change == "shredded"
    reader, key = (other if change == "other key" else store), RecordKey(SHOP if "tenant" in change else ACME, "k1")
    got: list[Piece] = []
    with pytest.raises(Conflict):
        got += [piece async for piece in reader.follow(key)]
    assert got == []
    assert await store.claim(key, "body") is Claim.MINE
    await wire.close()


async def test_answers_of_the_release_before_are_replayed(server: RedisServer) -> None:
    """A record under a key derived from the platform's, as versions before tenants' keys wrote it, is replayed."""
    wire = Wire(server.url, patience_s=2.0)
    await wire.call("FLUSHALL")
    store = RedisAnswers(wire, FixedKeys(), LOCAL_KEY)
    await store.claim(KEY, "body")
    await record(store, [HEAD, *BODY, END])
    body = f"penstock:answers:{{{ACME}}}:k1:body"
    await wire.call("DEL", body)
    salt = b"PSL\x01" + b"s" * 16
    of_tenant = hmac.digest(LOCAL_KEY, b"answers/acme\x01", "sha256")
    cipher = AESGCM(hmac.digest(of_tenant, b"k1" + salt + b"\x01", "sha256"))
    for number, piece in enumerate([HEAD, *BODY, END]):
        nonce = number.to_bytes(11) + bytes([piece.is_end])
        sealed = cipher.encrypt(nonce, msgspec.msgpack.encode(piece), None)
        extra: tuple[str | bytes, ...] = ("s", salt) if number == 0 else ()
        await wire.call("XADD", body, "*", "e" if piece.is_end else "p", sealed, *extra)
    assert await read(store) == [HEAD, *BODY, END]
    assert await store.claim(KEY, "body") is Claim.SAME
    await wire.close()


async def test_memory_is_bounded_over_all_tenants() -> None:
    """If all together are too many, the tenant with the most gives first."""
    store = MemoryAnswers(SystemClock(), max_bytes=20_000)
    await keep(store, keys(SHOP, 1)[0])
    acme = keys(ACME, 40)
    for key in acme:
        await keep(store, key)
    assert await store.claim(keys(SHOP, 1)[0], "body") is Claim.SAME
    assert await store.claim(acme[-1], "body") is Claim.SAME
    assert await store.claim(acme[0], "body") is Claim.MINE


async def test_memory_forgets_what_is_a_day_old() -> None:
    """A day later the key is free, and nothing is kept of a tenant that has no records."""
    clock = ManualClock()
    store = MemoryAnswers(clock)
    await keep(store, KEY)
    clock.advance(KEEP_S + 1.0)
    assert await store.claim(RecordKey(SHOP, "k"), "body") is Claim.MINE
    assert set(store._rooms) == {SHOP}


async def test_a_tenants_answers_are_forgotten_at_once(store: AnswerStore) -> None:
    """All of them are counted; one that grows breaks off, and another tenant's stay."""
    for key in (*keys(ACME, 3), *keys(SHOP, 2)):
        await keep(store, key)
    await store.claim(KEY, "body")
    assert [await store.forget(ACME), await store.forget(ACME)] == [4, 0]
    with pytest.raises(Conflict):
        await store.append(KEY, HEAD)
    assert [await store.claim(key, "body") for key in (keys(ACME, 1)[0], keys(SHOP, 1)[0])] == [Claim.MINE, Claim.SAME]


async def test_an_answer_is_kept_as_long_as_was_asked(server: RedisServer) -> None:
    """In memory and in Redis: from its end on."""
    clock, wire = ManualClock(), Wire(server.url, patience_s=2.0)
    memory, shared = MemoryAnswers(clock), RedisAnswers(wire, FixedKeys(), LOCAL_KEY)
    both: list[tuple[AnswerStore, float]] = [(memory, 60.0), (shared, 0.2)]
    for store, keep_s in both:
        await store.claim(KEY, "body")
        await store.append(KEY, HEAD)
        await store.append(KEY, END, keep_s)
        assert await store.has(KEY)
        clock.advance(61.0)
        await asyncio.sleep(0.3)
        assert not await store.has(KEY)
    await wire.close()


async def test_a_dropped_answer_is_gone_whoever_wrote_it(store: AnswerStore, server: RedisServer) -> None:
    """Complete or on its way; its key is free for a new one."""
    other, wire = store, Wire(server.url, patience_s=2.0)
    if isinstance(store, RedisAnswers):
        other = RedisAnswers(wire, FixedKeys(), LOCAL_KEY, SMALL)
    for pieces in ([HEAD, *BODY, END], [HEAD, *BODY]):
        assert await store.claim(KEY, "print") is Claim.MINE
        await record(store, pieces)
        await other.drop(KEY)
        assert not await store.has(KEY)
    with pytest.raises(Conflict):
        await store.append(KEY, END)
    await wire.close()
