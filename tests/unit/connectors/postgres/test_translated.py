"""What the driver's errors are called here."""

import asyncpg
import pytest

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
