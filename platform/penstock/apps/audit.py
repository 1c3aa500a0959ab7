"""Verification of the audit chain: database, signing keys and bucket put together."""

from functools import partial
from pathlib import Path

from penstock.apps.stores import database_dsn, open_segments
from penstock.audit.verifier import Progress, Verified, Verifier
from penstock.connectors.postgres.audit_chain import snapshot
from penstock.connectors.postgres.database import Database
from penstock.connectors.signing.heads import KnownKeys
from penstock.connectors.signing.keys import PUBLIC
from penstock.domain.clock import Clock
from penstock.domain.command_error import CommandError
from penstock.domain.errors import PenstockError
from penstock.mounted.secret_file import previous
from penstock.settings.processes import ControllerSettings

SLOWER = 60.0
"""The database's time limits are multiplied by this: a whole log is compared in one statement."""


async def verify(
    settings: ControllerSettings,
    clock: Clock,
    *,
    from_bucket: bool,
    since: float = 0.0,
    public_keys: tuple[Path, ...] = (),
    progress: Progress,
) -> Verified:
    keys = _keys(settings, public_keys)
    store = open_segments(settings, clock) if from_bucket else None
    async with Database(database_dsn(settings), max_connections=1, slower=SLOWER) as database:
        try:
            chain = partial(snapshot, database)
            verifier = Verifier(
                snapshot=chain,
                is_signed=keys.is_signed,
                store=store,
                since=since,
                now=clock.now(),
                progress=progress,
            )
            return await verifier.verify()
        except PenstockError as error:
            raise CommandError(
                f"The chain could not be verified: {error.message}.",
                do="Check PENSTOCK_DATABASE_URL, PENSTOCK_AUDIT_URL and the rights of this account.",
            ) from error


def _keys(settings: ControllerSettings, files: tuple[Path, ...]) -> KnownKeys:
    if settings.audit_signing_key and not files:
        from penstock.connectors.signing.kms import KmsKey

        return KnownKeys([KmsKey(settings.audit_signing_key).pem])
    home = settings.paths.signing / PUBLIC
    try:
        known = files or [path for path in (home, previous(home)) if path == home or path.is_file()]
        return KnownKeys([path.read_bytes() for path in known])
    except (OSError, ValueError) as error:
        raise CommandError(
            f"There is no public key to verify the chain with: {error}.",
            do="Name the platform's public key with --public-key; that of this home is signing/public.pem.",
        ) from error
