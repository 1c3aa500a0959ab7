"""Tenants' keys: made once, kept for their time, refused loudly when they can't be had, dropped when told."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import TenantId
from penstock.sealing import keys as sealing_keys
from penstock.sealing.keys import (
    KEEP_S,
    REFRESH_S,
    RETRY_S,
    Context,
    KeyPurpose,
    PurposeKeys,
    StoredKey,
    TenantKeys,
    Wrapped,
)
from penstock.sealing.local import LocalEncryption
from penstock.sealing.segments import FORMER, KeyGone, Sealing, Subject, Unreadable
from tests.support.clock import ManualClock

ACME, SHOP = TenantId("acme"), TenantId("shop")
CONTENT, WEBHOOKS = KeyPurpose.CONTENT, KeyPurpose.WEBHOOKS
CONTEXT = Context(ACME, CONTENT, "eu")


@dataclass
class Rows:
    """A store of keys in memory, which may be away."""

    stored: list[StoredKey] = field(default_factory=list)
    is_away: bool = False
    reads: int = 0

    async def newest(self, context: Context) -> StoredKey | None:
        return next((one for one in reversed(await self._read()) if one.context == context), None)

    async def find(self, tenant: TenantId, key: bytes) -> StoredKey | None:
        return next((one for one in await self._read() if (one.context.tenant, one.id) == (tenant, key)), None)

    async def add(self, key: StoredKey) -> StoredKey:
        if (found := await self.newest(key.context)) is None:
            self.stored.append(key)
        return found or key

    async def _read(self) -> list[StoredKey]:
        self.reads += 1
        await asyncio.sleep(0)
        if self.is_away:
            raise StoreUnavailable("away")
        return self.stored


@dataclass
class Site:
    clock: ManualClock
    rows: Rows = field(default_factory=Rows)
    platform: list[bytes] = field(default_factory=lambda: [b"p" * 32])

    def __post_init__(self) -> None:
        self.keys = TenantKeys(self.rows, LocalEncryption(lambda: self.platform), self.clock.monotonic, "eu")


@pytest.fixture
def site(clock: ManualClock) -> Site:
    return Site(clock)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_tenant_has_one_key_for_each_purpose(site: Site) -> None:
    """Fifty first requests at once, in two processes, make one key; another purpose or tenant has another."""
    other = TenantKeys(site.rows, LocalEncryption(lambda: site.platform), site.clock.monotonic, "eu")
    got = await asyncio.gather(*(keys.newest(ACME, CONTENT) for keys in (site.keys, other) for _ in range(25)))
    assert len(set(got)) == len(site.rows.stored) == 1
    assert len({got[0], await site.keys.newest(ACME, WEBHOOKS), await site.keys.newest(SHOP, CONTENT)}) == 3


async def test_kept_keys_serve_for_their_time_and_then_nothing_does(site: Site) -> None:
    """While the store is away, a key that was just read serves for fifteen minutes; after them each call fails."""
    first = await site.keys.newest(ACME, CONTENT)
    site.rows.is_away = True
    while site.clock.monotonic() < KEEP_S - 1:
        assert await site.keys.newest(ACME, CONTENT) == first
        await settle()
        site.clock.advance(50.0)
    site.clock.advance(50.0)
    with pytest.raises(StoreUnavailable):
        await site.keys.newest(ACME, CONTENT)
    with pytest.raises(StoreUnavailable):
        await site.keys.newest(SHOP, CONTENT)


async def test_a_used_key_is_read_anew_beside_its_use(site: Site) -> None:
    """Its time begins anew with each refresh, so an outage finds at least ten minutes left; no use waits for it."""
    first = await site.keys.newest(ACME, CONTENT)
    site.clock.advance(REFRESH_S)
    reads = site.rows.reads
    assert await site.keys.newest(ACME, CONTENT) == first
    assert site.rows.reads == reads
    await settle()
    site.rows.is_away = True
    site.clock.advance(KEEP_S - 1)
    assert await site.keys.newest(ACME, CONTENT) == first


async def test_failures_are_asked_again_once_a_second(site: Site) -> None:
    """A thousand calls while the store is away are a handful of reads; once it is back, the next second serves."""
    site.rows.is_away = True
    for _ in range(100):
        with pytest.raises(StoreUnavailable):
            await site.keys.newest(ACME, CONTENT)
    assert site.rows.reads == 1
    site.rows.is_away = False
    site.clock.advance(RETRY_S)
    await site.keys.newest(ACME, CONTENT)


async def test_what_is_shredded_opens_no_more(site: Site) -> None:
    """A key without a row serves until the process is told, and never again after that; the next one is another."""
    first = await site.keys.newest(ACME, CONTENT)
    site.rows.stored.clear()
    assert await site.keys.find(ACME, CONTENT, first.id) == first
    site.keys.forget(ACME)
    with pytest.raises(KeyGone):
        await site.keys.find(ACME, CONTENT, first.id)
    assert await site.keys.newest(ACME, CONTENT) != first


async def test_a_key_that_was_being_read_when_it_was_shredded_is_not_kept(site: Site) -> None:
    """The news may come between the row's read and its end."""
    first = await site.keys.newest(ACME, CONTENT)
    site.keys.keep_only({first.id}, set())
    reading = asyncio.ensure_future(site.keys.newest(ACME, CONTENT))
    await asyncio.sleep(0)
    site.keys.forget(ACME)
    await reading
    assert site.keys.kept == frozenset()


async def test_only_asked_keys_are_dropped(site: Site) -> None:
    """Keys that were made while a process asked for its own stay."""
    one, two = await site.keys.newest(ACME, CONTENT), await site.keys.newest(SHOP, CONTENT)
    site.keys.keep_only({one.id}, set())
    assert site.keys.kept == {two.id}


async def test_no_more_keys_than_the_bound_are_kept(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest go first."""
    monkeypatch.setattr(sealing_keys, "MOST_KEPT", 4)
    last = [await site.keys.newest(TenantId(f"t{number}"), CONTENT) for number in range(4)][2:]
    await settle()
    assert site.keys.kept == {one.id for one in last}


@given(st.sampled_from(["tenant", "purpose", "region", "bytes", "by"]))
def test_a_wrapped_key_unwraps_in_its_own_context_alone(change: str) -> None:
    """A wrapped key that was moved to another tenant, purpose or region, or was altered, does not unwrap."""

    async def tried() -> None:
        encryption = LocalEncryption(lambda: [b"p" * 32])
        wrapped = await encryption.wrap(b"s" * 32, CONTEXT)
        assert await encryption.unwrap(wrapped, CONTEXT) == b"s" * 32
        context = {
            "tenant": CONTEXT._replace(tenant=SHOP),
            "purpose": CONTEXT._replace(purpose=WEBHOOKS),
            "region": CONTEXT._replace(region="us"),
        }.get(change, CONTEXT)
        if change == "bytes":
            wrapped = wrapped._replace(secret=bytes([wrapped.secret[0] ^ 1]) + wrapped.secret[1:])
        if change == "by":
            wrapped = Wrapped("local/another", wrapped.secret)
        with pytest.raises(Unreadable):
            await encryption.unwrap(wrapped, context)

    asyncio.run(tried())


async def test_another_tenants_wrapped_key_opens_nothing(site: Site) -> None:
    """A row that was copied to another tenant is refused, loudly for what is sealed next."""
    mine = await site.keys.newest(ACME, CONTENT)
    copied = replace(site.rows.stored[0], context=Context(SHOP, CONTENT, "eu"))
    site.rows.stored = [copied]
    with pytest.raises(Unreadable):
        await site.keys.find(SHOP, CONTENT, mine.id)
    with pytest.raises(StoreUnavailable):
        await site.keys.newest(SHOP, CONTENT)


async def test_an_exchanged_platform_key_unwraps_while_it_is_there(site: Site) -> None:
    """Wrapped keys need the platform key that wrapped them; without it sealing is refused."""
    first = await site.keys.newest(ACME, CONTENT)
    site.platform.insert(0, b"q" * 32)
    site.keys.forget(ACME)
    assert await site.keys.newest(ACME, CONTENT) == first
    site.platform.pop()
    site.keys.forget(ACME)
    with pytest.raises(StoreUnavailable, match="another key"):
        await site.keys.newest(ACME, CONTENT)


async def test_headers_name_the_key(site: Site) -> None:
    """An object's header leads to its key; the former format to the platform's."""
    keys = PurposeKeys(site.keys, CONTENT, lambda: [b"former"])
    key = await keys.newest(ACME)
    header = Sealing(key, Subject("payloads", ACME, "a/b")).header
    assert await keys.opening(ACME, header) == (key.secret,)
    assert await keys.opening(ACME, FORMER + bytes(16)) == [b"former"]
    assert str(key) == f"TenantKey({key.id.hex()})"
