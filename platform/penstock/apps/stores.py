"""The configured database, artifact store, signer and verifier; each is imported only when needed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.audit.segments import SegmentStore
from penstock.audit.segments import Signer as HeadSigner
from penstock.control.registry.operators import PLATFORM
from penstock.domain.clock import DAY_S, Clock
from penstock.domain.tenancy.audit import Act
from penstock.domain.tenancy.keys import Purpose, derive
from penstock.mounted.secret_file import previous
from penstock.packaging.ports import ArtifactStore, Signer
from penstock.settings.deferred import DeferredSettings
from penstock.settings.processes import WorkerSettings
from penstock.settings.stores import ArtifactSettings, AuditSettings, DatabaseSettings, SealingSettings, with_user
from penstock.settings.told import Told
from penstock.worker.artifacts.fetch import SignatureVerifier

if TYPE_CHECKING:
    from penstock.connectors.postgres.database import Database
    from penstock.connectors.spool.by_hand import Delivered
    from penstock.domain.jobs.payload import PayloadStore
    from penstock.sealing.keys import Keys, NamedEncryption, TenantKeys

Platform = Callable[[], Sequence[bytes]]
"""Returns the platform's present keys, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreKeys:
    tenants: "TenantKeys"
    payloads: "Keys"
    answers: "Keys"
    webhooks: "Keys"


def database_dsn(settings: DatabaseSettings) -> str:
    from penstock.connectors.postgres.embedded import dsn_of

    return settings.database_address or with_user(dsn_of(settings.paths.postgres), settings.database_user)


async def deliver_spool(settings: DatabaseSettings, folder: Path, clock: Clock) -> "Delivered":
    from penstock.connectors.postgres.audit import PostgresAudit
    from penstock.connectors.postgres.database import Database
    from penstock.connectors.postgres.ledger import PostgresLedger
    from penstock.connectors.spool.by_hand import deliver

    async with Database(database_dsn(settings), max_connections=1) as database:
        act = Act(who=PLATFORM, what="spool.deliver", target=str(folder), at=clock.now())
        audit = PostgresAudit(database)
        return await deliver(folder, PostgresLedger(database), clock, lambda: audit.note(act))


def open_store(settings: ArtifactSettings) -> ArtifactStore:
    if settings.artifact_store:
        from penstock.connectors.s3.store import S3Store

        return S3Store(settings.artifact_store, endpoint=settings.artifact_endpoint)
    from penstock.connectors.folder.store import FolderStore

    return FolderStore(settings.paths.artifacts)


def open_encryption(settings: SealingSettings, platform: Platform) -> "NamedEncryption":
    from penstock.sealing.local import LocalEncryption

    local = LocalEncryption(lambda: [derive(key, Purpose.TENANT_KEYS) for key in platform()])
    if not settings.sealing_key:
        return local
    from penstock.connectors.kms.aws import AwsEncryption

    return AwsEncryption(settings.sealing_key, local)


def open_keys(settings: SealingSettings, database: "Database", platform: Platform, clock: Clock) -> "StoreKeys":
    from penstock.connectors.postgres.tenant_keys import PostgresTenantKeys
    from penstock.sealing.keys import KeyPurpose, PurposeKeys, TenantKeys

    def former(purpose: Purpose) -> Platform:
        return lambda: [derive(key, purpose) for key in platform()]

    encryption = open_encryption(settings, platform)
    keys = TenantKeys(PostgresTenantKeys(database), encryption, clock.monotonic, settings.region)
    return StoreKeys(
        tenants=keys,
        payloads=PurposeKeys(keys, KeyPurpose.CONTENT, former(Purpose.PAYLOADS)),
        answers=PurposeKeys(keys, KeyPurpose.CONTENT, former(Purpose.ANSWERS)),
        webhooks=PurposeKeys(keys, KeyPurpose.WEBHOOKS, former(Purpose.WEBHOOKS)),
    )


def open_payloads(settings: DeferredSettings, keys: "Keys") -> "PayloadStore":
    from penstock.connectors.payloads.folder import FolderObjects
    from penstock.connectors.payloads.store import SealedPayloads

    if not settings.payloads_url:
        return SealedPayloads(FolderObjects(settings.paths.payloads), keys)
    from penstock.connectors.s3.objects import S3Objects

    return SealedPayloads(S3Objects(settings.payloads_url, endpoint=settings.payloads_endpoint), keys)


def open_signer(settings: Told, signing_key: str = "") -> Signer:
    if signing_key:
        from penstock.connectors.signing.kms import KmsSigner

        return KmsSigner(signing_key)
    from penstock.connectors.signing.openssf import KeyPairSigner

    return KeyPairSigner(settings.paths.signing)


def open_segments(settings: AuditSettings, clock: Clock) -> SegmentStore:
    if not settings.audit_url:
        from penstock.connectors.folder.segments import FolderSegments

        return FolderSegments(settings.paths.audit, settings.region)
    from penstock.connectors.s3.segments import LockedSegments

    def locked_until() -> float:
        return clock.now() + settings.audit_lock_days * DAY_S

    return LockedSegments(settings.audit_url, settings.region, locked_until, endpoint=settings.audit_endpoint)


def open_head_signer(settings: AuditSettings) -> HeadSigner:
    if settings.audit_signing_key:
        from penstock.connectors.signing.kms import KmsKey

        return KmsKey(settings.audit_signing_key)
    from penstock.connectors.signing.heads import KeyPairHeads

    return KeyPairHeads(settings.paths.signing)


def open_verifier(settings: WorkerSettings) -> SignatureVerifier:
    from penstock.connectors.signing.keys import PUBLIC
    from penstock.connectors.signing.openssf import PublicKeyVerifier

    key = Path(settings.signing_key_file) if settings.signing_key_file else settings.paths.signing / PUBLIC
    return PublicKeyVerifier(key, previous(key))
