"""Who may do what in the database: gateways read and append, controllers write, auditors read.

Postgres refuses everything else, whatever a process was brought to send. The owner of the tables says it, again with
each release, and what stood before is taken back. A password reaches the server as its SCRAM verifier alone: servers
may log statements.
"""

import hashlib
import hmac
import secrets
from base64 import b64encode
from collections.abc import Mapping

from penstock.connectors.postgres.database import Database, Session
from penstock.connectors.postgres.queries import load

GATEWAY, CONTROLLER, AUDITORS = "penstock_gateway", "penstock_controller", "penstock_auditors"
"""The first two are the processes' own; the third is a group, which people's roles are put in."""
ITERATIONS = 4096
_SALT_BYTES = 16
_SQL = load("roles")


async def grant(database: Database, passwords: Mapping[str, str]) -> None:
    """Make the roles and say what they may. Those that are named may come in: by their password, or where it is empty
    as the server trusts them.
    """
    async with database.transaction() as session:
        await session.run(_SQL["make"])
        await session.run(_SQL["grant"])
        for role, password in passwords.items():
            await _let_in(session, role, password)


async def _let_in(session: Session, role: str, password: str) -> None:
    told = (verifier(password, secrets.token_bytes(_SALT_BYTES)),) if password else ()
    row = await session.row(_SQL["with_password"] if told else _SQL["trusted"], role, *told)
    assert row is not None  # noqa: S101  a select without a table
    await session.run(str(row["statement"]))


def verifier(password: str, salt: bytes) -> str:
    """Return what Postgres keeps of a password of ASCII letters (RFC 5803)."""
    salted = hashlib.pbkdf2_hmac("sha256", password.encode("ascii"), salt, ITERATIONS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    kept, stored_text, server_text = (b64encode(part).decode() for part in (salt, stored, server))
    return f"SCRAM-SHA-256${ITERATIONS}:{kept}${stored_text}:{server_text}"
