"""Key-encryption keys, local and in KMS over HTTP, and wrapped keys of tenants on a real Postgres.

The stand-in for KMS proves the calls and the encryption context. It does not prove that a disabled key or one that is
pending deletion refuses to decrypt: moto goes on decrypting with both, AWS does not. So shredding is the deletion of
our wrapped keys, and is tested as that.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import boto3
import pytest

from penstock.connectors.kms.aws import SCHEME, AwsEncryption
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.tenant_keys import PostgresTenantKeys, follow
from penstock.domain.clock import SystemClock
from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import TenantId
from penstock.sealing.administration import KeyAdministration
from penstock.sealing.keys import Context, KeyPurpose, NamedEncryption, TenantKeys
from penstock.sealing.local import LocalEncryption
from penstock.sealing.segments import KeyGone, Unreadable
from tests.support.gateways.dispatch import until
from tests.support.stores.s3_server import s3_server

ACME, SHOP = TenantId("acme"), TenantId("shop")
CONTEXT = Context(ACME, KeyPurpose.CONTENT, "eu")
DELETED = "insert into privacy_deletion (tenant, until, asked_by, asked_at, keys) values ($1, 1, 'o', 1, 1)"
LOCAL = LocalEncryption(lambda: [b"p" * 32])


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as address:
        yield address


def new_key(endpoint: str) -> str:
    return SCHEME + boto3.client("kms", endpoint_url=endpoint).create_key()["KeyMetadata"]["KeyId"]


@pytest.fixture(params=["local", "kms"])
def encryption(request: pytest.FixtureRequest, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> NamedEncryption:
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", endpoint)
    return LOCAL if request.param == "local" else AwsEncryption(new_key(endpoint), LOCAL)


async def test_a_wrapped_key_unwraps_in_its_context_alone(encryption: NamedEncryption) -> None:
    """Tenant, purpose and region are the encryption context: with another one, or altered, it does not unwrap."""
    wrapped = await encryption.wrap(b"s" * 32, CONTEXT)
    assert wrapped.by == await encryption.current()
    assert b"s" * 8 not in wrapped.secret
    assert await encryption.unwrap(wrapped, CONTEXT) == b"s" * 32
    for other in (
        CONTEXT._replace(tenant=SHOP),
        CONTEXT._replace(purpose=KeyPurpose.WEBHOOKS),
        CONTEXT._replace(region="us"),
    ):
        with pytest.raises(Unreadable):
            await encryption.unwrap(wrapped, other)
    for secret in (wrapped.secret[:-1], wrapped.secret[:-1] + bytes([wrapped.secret[-1] ^ 1])):
        with pytest.raises(Unreadable):
            await encryption.unwrap(wrapped._replace(secret=secret), CONTEXT)


async def test_a_platform_may_change_to_kms(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that the local key wrapped unwrap beside those of KMS, and keys of a former KMS key do."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", endpoint)
    former, now = AwsEncryption(new_key(endpoint), LOCAL), AwsEncryption(new_key(endpoint), LOCAL)
    for before in (LOCAL, former):
        assert await now.unwrap(await before.wrap(b"s" * 32, CONTEXT), CONTEXT) == b"s" * 32


async def test_kms_that_is_away_or_refuses_is_told_apart_from_a_foreign_key(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are outages: what they wrapped may open later."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", endpoint)
    with pytest.raises(StoreUnavailable, match="NotFound"):
        await AwsEncryption(f"{SCHEME}alias/none", LOCAL).wrap(b"s" * 32, CONTEXT)
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", "http://127.0.0.1:9")
    with pytest.raises(StoreUnavailable, match="reached"):
        await AwsEncryption(f"{SCHEME}alias/none", LOCAL).wrap(b"s" * 32, CONTEXT)


def process(database: Database) -> TenantKeys:
    return TenantKeys(PostgresTenantKeys(database), LOCAL, SystemClock().monotonic, "eu")


@pytest.mark.integration
async def test_processes_share_one_key(database: Database) -> None:
    """Eight processes that seal a tenant's first objects at once use one key; its secret is in no row."""
    made = await asyncio.gather(*(process(database).newest(ACME, KeyPurpose.CONTENT) for _ in range(8)))
    assert len(set(made)) == 1
    assert await process(database).find(ACME, KeyPurpose.CONTENT, made[0].id) == made[0]
    for tenant, purpose in ((SHOP, KeyPurpose.CONTENT), (ACME, KeyPurpose.WEBHOOKS)):
        with pytest.raises(Unreadable):
            await process(database).find(tenant, purpose, made[0].id)
    (row,) = await database.rows("select * from tenant_key")
    assert made[0].secret not in row["wrapped"]


@asynccontextmanager
async def following(dsn: str, keys: TenantKeys) -> AsyncIterator[None]:
    task = asyncio.create_task(follow(dsn, keys))
    await asyncio.sleep(0.3)
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.integration
@pytest.mark.parametrize("is_told", [True, False])
async def test_a_shredded_key_leaves_every_process(database: Database, database_dsn: str, is_told: bool) -> None:
    """By its notification within a second, and by asking if the notification is lost."""
    keys = process(database)
    first = await keys.newest(ACME, KeyPurpose.CONTENT)
    await keys.newest(SHOP, KeyPurpose.CONTENT)
    async with following(database_dsn, keys):
        if not is_told:
            await database.rows("alter table tenant_key disable trigger tenant_key_deleted")
        await database.rows("delete from tenant_key where tenant = $1", ACME)
        await database.rows(DELETED, ACME)
        await until(lambda: first.id not in keys.kept, within_s=1.0 if is_told else 5.0)
    assert len(keys.kept) == 1
    with pytest.raises(KeyGone):
        await keys.find(ACME, KeyPurpose.CONTENT, first.id)


@pytest.mark.integration
async def test_an_altered_key_id_is_told_apart_from_a_shredded_key(database: Database) -> None:
    """Of a tenant whose keys were never shredded an unknown key means other bytes, not gone ones."""
    keys = process(database)
    first = await keys.newest(ACME, KeyPurpose.CONTENT)
    await database.rows(DELETED, SHOP)
    for unknown in (bytes([first.id[0] ^ 1]) + first.id[1:], bytes(16)):
        with pytest.raises(Unreadable) as found:
            await keys.find(ACME, KeyPurpose.CONTENT, unknown)
        assert found.type is Unreadable


@pytest.mark.integration
async def test_rotation_seals_anew_and_opens_what_was_sealed(
    database: Database, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant's new key seals; after a change from the local key to KMS and a rewrap the former is needed no more."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", endpoint)
    rows, kms = PostgresTenantKeys(database), AwsEncryption(new_key(endpoint), LOCAL)
    first = await process(database).newest(ACME, KeyPurpose.CONTENT)
    await KeyAdministration(rows, LOCAL, "eu").rotate(ACME)
    second = await process(database).newest(ACME, KeyPurpose.CONTENT)
    assert second != first
    moved = KeyAdministration(rows, kms, "eu")
    assert [await moved.rewrap(), await moved.rewrap()] == [3, 0]
    current, counts = await moved.counts()
    assert {one.wrapped_by for one in counts} == {current}
    assert {one.purpose: one.keys for one in counts} == {KeyPurpose.CONTENT: 2, KeyPurpose.WEBHOOKS: 1}
    lost = LocalEncryption(lambda: [b"x" * 32])
    keys = TenantKeys(rows, AwsEncryption(current, lost), SystemClock().monotonic, "eu")
    assert await keys.newest(ACME, KeyPurpose.CONTENT) == second
    assert await keys.find(ACME, KeyPurpose.CONTENT, first.id) == first
