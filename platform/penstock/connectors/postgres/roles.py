"""Database roles: gateways and runners read and append, controllers write, auditors read; Postgres refuses the rest.

The tables' owner sets the grants again with each release and revokes older ones. Passwords reach the server as SCRAM
verifiers only, since servers may log statements.
"""

import hashlib
import hmac
import secrets
from base64 import b64encode
from collections.abc import Mapping

from penstock.connectors.postgres.database import Database, Session
from penstock.connectors.postgres.queries import load

GATEWAY, CONTROLLER, RUNNER = "penstock_gateway", "penstock_controller", "penstock_runner"
AUDITORS = "penstock_auditors"
"""A group for people's roles; the others are processes'."""
ITERATIONS = 4096
_SALT_BYTES = 16
_SQL = load("roles")


async def grant(database: Database, passwords: Mapping[str, str]) -> None:
    """Named roles may log in, with their password or, if empty, by the server's trust rules."""
    async with database.transaction() as session:
        await session.run(_SQL["make"])
        await session.run(_SQL["grant"])
        for role, password in passwords.items():
            await _let_in(session, role, password)
        await session.run(_SQL["noted"], " ".join(sorted(passwords)))


async def _let_in(session: Session, role: str, password: str) -> None:
    told = (verifier(password, secrets.token_bytes(_SALT_BYTES)),) if password else ()
    (row,) = await session.rows(_SQL["with_password"] if told else _SQL["trusted"], role, *told)
    await session.run(str(row["statement"]))


def verifier(password: str, salt: bytes) -> str:
    salted = hashlib.pbkdf2_hmac("sha256", password.encode("ascii"), salt, ITERATIONS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    kept, stored_text, server_text = (b64encode(part).decode() for part in (salt, stored, server))
    return f"SCRAM-SHA-256${ITERATIONS}:{kept}${stored_text}:{server_text}"
