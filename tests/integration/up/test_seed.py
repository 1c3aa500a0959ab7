"""What a new platform begins with, on a real Postgres."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.embedded import EmbeddedPostgres
from penstock.connectors.postgres.tenancy import PostgresTenancy
from penstock.domain.clock import SystemClock
from penstock.domain.command_error import CommandError
from penstock.domain.tenancy.audit import Act
from penstock.domain.tenancy.keys import key_id_of
from penstock.domain.tenancy.tenant import Role
from penstock.local import home, seed
from penstock.settings import Settings

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of an embedded server."""
    folder = tmp_path_factory.mktemp("seed")
    server = EmbeddedPostgres(folder / "postgres", folder / "postgres.log")
    yield server.start()
    server.stop()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = Settings(home=tmp_path)
    home.prepare(found.paths)
    return found


@pytest.fixture
async def database(address: str) -> AsyncIterator[Database]:
    await seed.migrate(address)
    async with seed.opened(address) as opened:
        yield opened


async def test_keys_are_minted_once(settings: Settings, database: Database) -> None:
    """The first start mints a caller's and an operator's key; the second keeps both."""
    seeding = seed.Seed(settings, database, SystemClock())
    assert await seeding.tenants() == 2
    first = settings.paths.demo_key.read_text(), settings.paths.admin_key.read_text()
    assert await seeding.tenants() == 0
    assert (settings.paths.demo_key.read_text(), settings.paths.admin_key.read_text()) == first
    stored = {key.id: key for key in await PostgresTenancy(database).keys()}
    demo, admin = (stored[key_id_of(secret.strip()) or ""] for secret in first)  # type: ignore[index]
    assert (demo.tenant, demo.role) == ("demo", Role.INFER)
    assert (admin.tenant, admin.role) == ("operators", Role.ADMIN)


async def test_a_key_that_no_longer_works_is_replaced(settings: Settings, database: Database) -> None:
    """After the demo key was revoked, or its file emptied, the next start mints a new one."""
    seeding = seed.Seed(settings, database, SystemClock())
    await seeding.tenants()
    secret = settings.paths.demo_key.read_text().strip()
    key_id = key_id_of(secret)
    assert key_id is not None
    act = Act(who="test", what="key.revoke", target=key_id, at=SystemClock().now() - 1)
    assert await PostgresTenancy(database).revoke_key(key_id, act)
    assert await seeding.tenants() == 1
    assert settings.paths.demo_key.read_text().strip() != secret
    settings.paths.admin_key.write_text("")
    assert await seeding.tenants() == 1
    assert settings.paths.admin_key.stat().st_mode & 0o077 == 0


async def test_a_database_that_is_away_is_trouble(settings: Settings, tmp_path: Path) -> None:
    """A missing database ends in a sentence that names the setting."""
    with pytest.raises(CommandError) as caught:
        await seed.migrate(f"postgresql://nobody@/none?host={tmp_path}")
    assert "PENSTOCK_DATABASE_URL" in caught.value.do
