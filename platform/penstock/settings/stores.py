"""Settings that several processes share: stores, keys, metrics, certificates."""

from typing import Annotated
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from pydantic import AfterValidator, Field

from penstock.settings import forms
from penstock.settings.told import File, KeyFile, Secret, Told
from penstock.telemetry.tenants import TenantNames


class DatabaseSettings(Told):
    """Postgres."""

    database_url: Annotated[Secret, AfterValidator(forms.ported)] = ""
    """Address of Postgres; empty means the embedded one of this home, which `penstock up` starts."""
    database_password_file: KeyFile = ""
    """File with the database's password, read at each new connection, so that it can change without a restart."""
    database_ca_file: File = ""
    """The authority of the database's certificate, PEM; with it the server is verified (``verify-full``)."""
    database_user: str = ""
    """The database role, in place of the one in the address."""

    @property
    def database_address(self) -> str:
        """Return the address with the files of its password and authority; empty for the embedded server."""
        verified = {"sslmode": "verify-full", "sslrootcert": self.database_ca_file} if self.database_ca_file else {}
        address = with_files(self.database_url, password_file=self.database_password_file, **verified)
        return with_user(address, self.database_user)


class KeySettings(Told):
    """The platform's secrets; ``<file>.previous`` beside a file is valid too."""

    platform_key_file: KeyFile = ""
    """File with the platform's key: 32 random bytes as hex; empty means ``platform.key`` in the home."""
    pepper_file: KeyFile = ""
    """File with the pepper of API keys' hashes, as hex; empty derives it from the platform's key, which then can't be
    exchanged without new API keys."""


class SealingSettings(Told):
    """The key-encryption key of what tenants store."""

    sealing_key: Annotated[str, AfterValidator(forms.kms_key)] = ""
    """The symmetric key in AWS KMS that wraps tenants' keys, ``awskms:///alias/NAME``; empty means a key derived from
    the platform's. The same in all gateways, runners and controllers of a region."""


class ArtifactSettings(Told):
    """The store of model versions."""

    artifact_store: Annotated[str, AfterValidator(forms.bucket)] = ""
    """``s3://bucket/prefix``; empty means the folder ``artifacts`` in the home."""
    artifact_endpoint: str = ""
    """The S3 endpoint if it is not AWS's."""


class AuditSettings(Told):
    """The audit chain's signatures, and the store of its segments."""

    audit_url: Annotated[str, AfterValidator(forms.bucket)] = ""
    """``s3://bucket/prefix`` with Object Lock for signed segments of the audit log, under a folder of each region;
    empty means the folder ``audit`` in the home, which is no write-once store."""
    audit_endpoint: str = ""
    """The S3 endpoint of that bucket if it is not AWS's."""
    audit_signing_key: str = ""
    """The key that signs the audit chain, in AWS KMS (``awskms:///alias/NAME``, ECC_NIST_P256); empty means the key
    pair in the home."""
    audit_lock_days: int = Field(default=400, ge=1, le=36_500)
    """Days for which the bucket keeps a segment in COMPLIANCE mode: nobody can delete it earlier."""
    audit_keep_days: int = Field(default=400, ge=0, le=36_500)
    """Days for which the database keeps acts after their segment was shipped; 0 keeps them always."""


class LimitsSettings(Told):
    """The store of limits."""

    limits_url: Annotated[Secret, AfterValidator(forms.redis)] = ""
    """Redis or Valkey with the limits of all gateways; empty keeps them in the process (one gateway)."""
    limits_password_file: KeyFile = ""
    """File with the password of the limits' store, read at each new connection."""
    limits_ca_file: File = ""
    """The authority of the limits' store, PEM; empty takes the machine's authorities."""

    @property
    def limits_address(self) -> str:
        """Return the address with its files; empty if each gateway counts for itself."""
        return with_files(self.limits_url, password_file=self.limits_password_file, ssl_ca_certs=self.limits_ca_file)


class MetricsSettings(Told):
    """The private listener of a gateway or controller: metrics, and health in detail."""

    metrics_host: str = "127.0.0.1"
    """The address of the private listener."""
    metrics_port: int = Field(default=0, ge=0, le=65535)
    """Port of the private listener; `penstock up` gives gateway n ``port + n - 1``, then the controller; 0 takes free
    ones."""
    metrics_tenants: TenantNames = TenantNames.NAMED
    """Tenants in metrics: ``named``, ``hashed``, or ``off``."""
    metrics_most_tenants: int = Field(default=50, ge=0)
    """The most tenants with labels of their own in metrics; all others are ``other``."""

    @property
    def tenant_names(self) -> tuple[TenantNames, int]:
        return self.metrics_tenants, self.metrics_most_tenants

    @property
    def metrics_address(self) -> tuple[str, int]:
        return self.metrics_host, self.metrics_port


class PeerSettings(Told):
    """The certificate of a process, and the authorities that it trusts; read again when the files change."""

    tls_cert_file: File = ""
    """This process's certificate, PEM, with the URI ``spiffe://<trust domain>/<role>`` among its names."""
    tls_key_file: KeyFile = ""
    """The key of that certificate, PEM."""
    tls_ca_file: File = ""
    """The authorities of this platform's certificates, PEM; all in the file are trusted."""


def with_user(url: str, user: str) -> str:
    """Return the address with this role in place of its own role and password."""
    if not url or not user:
        return url
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{quote(user)}@{parts.netloc.rpartition('@')[2]}"))


def with_files(url: str, **files: str) -> str:
    """Return a store's address with the files that each new connection reads, as parameters."""
    given = urlencode({name: file for name, file in files.items() if file}, safe="/")
    if not url or not given:
        return url
    return f"{url}{'&' if '?' in url else '?'}{given}"
