"""What the driver's errors are called here, and how it connects."""

import re
from pathlib import Path

import asyncpg
import pytest

from penstock.connectors.postgres import database
from penstock.connectors.postgres.database import translated
from penstock.domain.errors import StoreUnavailable


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            asyncpg.DiskFullError('could not extend file "base/1": No space left on device'),
            "the database's disk is full",
        ),
        (asyncpg.TooManyConnectionsError("sorry, too many clients already"), "the database can't be reached"),
        (OSError("no route"), "the database can't be reached"),
        (
            asyncpg.InvalidPasswordError('password authentication failed for user "u"'),
            "refuses the role or its password",
        ),
        (asyncpg.InvalidAuthorizationSpecificationError('role "u" does not exist'), "refuses the role or its password"),
        (asyncpg.InvalidCatalogNameError('database "d" does not exist'), "there is no database of that name"),
    ],
)
def test_a_server_that_refuses_is_not_called_away(error: Exception, said: str) -> None:
    """A wrong password, role or database's name is said as what it is, where it sent people to look at the network."""
    with pytest.raises(StoreUnavailable) as raised, translated():
        raise error
    assert said in raised.value.message
    assert raised.value.__cause__ is error


def test_each_connection_has_the_fixed_settings() -> None:
    """The search path above all: no code connects without ``Way.named``."""
    platform = Path(database.__file__).parents[2]
    made = [
        (path.name, first)
        for path in platform.rglob("*.py")
        for first in re.findall(r"asyncpg\.(?:connect|create_pool)\(\s*([^,)(]+)", path.read_text())
    ]
    assert len(made) >= 5
    assert [one for one in made if not re.fullmatch(r"\*\*(self\._way|way)(\.named)?", one[1])] == []
    assert database.way("postgresql:///d?search_path=x").named()["server_settings"]["search_path"] == "public, pg_temp"
