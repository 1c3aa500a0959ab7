"""Keys derived from the platform's secret, and API keys.

An API key reads ``psk_<key id>_<secret><checksum>``: prefix and checksum let secret scanners find a leaked one offline;
the id finds the stored record, which holds an HMAC of the whole. The secret is 256 random bits, so a fast keyed hash
suffices.
"""

import hashlib
import hmac
import secrets
import string
import zlib
from enum import StrEnum

from penstock.domain.ids import Alias, KeyId, TenantId, VersionId, WorkerId
from penstock.domain.tenancy.tenant import ApiKey, Role

PREFIX = "psk"
_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_ID_CHARS = 12
_SECRET_CHARS = 43
_CHECK_CHARS = 6
KEY_CHARS = len(PREFIX) + _ID_CHARS + _SECRET_CHARS + _CHECK_CHARS + 2
"""The length of every API key."""


class Purpose(StrEnum):
    PEPPER = "pepper"
    TICKET = "ticket"
    CACHE_SALT = "cache-salt"
    ANSWERS = "answers"
    PAYLOADS = "payloads"
    WORKER = "worker"
    METRICS = "metrics"
    FINGERPRINT = "fingerprint"
    WEBHOOKS = "webhooks"
    TENANT_KEYS = "tenant-keys"
    USERS = "users"


def derive(platform_key: bytes, purpose: Purpose) -> bytes:
    """32 bytes (HKDF-expand of RFC 5869 with one block)."""
    return hmac.digest(platform_key, b"penstock/" + purpose.encode() + b"\x01", hashlib.sha256)


def worker_secret(platform_key: bytes, worker: WorkerId) -> bytes:
    """Return the key of one worker's tickets, which the gateways know too. It reveals nothing of the platform's key."""
    return hmac.digest(derive(platform_key, Purpose.TICKET), worker.encode(), hashlib.sha256)


def key_mark(secret: bytes) -> str:
    return hmac.digest(secret, b"penstock/mark", hashlib.sha256).hex()[:8]


def worker_bearer(platform_key: bytes, worker: WorkerId, version: VersionId) -> str:
    """Return the bearer of the worker's reports, valid for this worker and version."""
    name = f"{worker}\x1f{version}".encode()
    return hmac.digest(derive(platform_key, Purpose.WORKER), name, hashlib.sha256).hex()


def hash_secret(secret: str, pepper: bytes) -> str:
    """Return the stored hash of an API key: hex HMAC-SHA-256 under the pepper."""
    return hmac.digest(pepper, secret.encode(), hashlib.sha256).hex()


def is_hash_of(stored: str, secret: str, peppers: tuple[bytes, ...]) -> bool:
    return any(hmac.compare_digest(hash_secret(secret, pepper), stored) for pepper in peppers)


def cache_salt(tenant: TenantId, salt_key: bytes) -> str:
    """Return the tenant's prefix-cache salt: stable and unguessable (E5)."""
    return hmac.digest(salt_key, tenant.encode(), hashlib.sha256).hex()[:32]


def tenant_label(tenant: str, label_key: bytes) -> str:
    return hmac.digest(label_key, tenant.encode(), hashlib.sha256).hex()[:12]


def mint(
    tenant: TenantId,
    *,
    pepper: bytes,
    now: float,
    role: Role = Role.INFER,
    models: tuple[Alias, ...] = (),
    expires_at: float = 0.0,
) -> tuple[str, ApiKey]:
    """The secret is shown once. Times are Unix seconds."""
    key_id = _random(_ID_CHARS)
    stem = f"{PREFIX}_{key_id}_{_random(_SECRET_CHARS)}"
    secret = stem + _checksum(stem)
    record = ApiKey(
        id=KeyId(key_id),
        tenant=tenant,
        secret_hash=hash_secret(secret, pepper),
        role=role,
        models=models,
        created_at=now,
        expires_at=expires_at,
    )
    return secret, record


def key_id_of(secret: str) -> KeyId | None:
    if len(secret) != KEY_CHARS or not secret.isascii():
        return None
    prefix, _, rest = secret.partition("_")
    key_id, _, _ = rest.partition("_")
    if prefix != PREFIX or len(key_id) != _ID_CHARS:
        return None
    return KeyId(key_id)


def is_well_formed(secret: str) -> bool:
    return key_id_of(secret) is not None and _checksum(secret[:-_CHECK_CHARS]) == secret[-_CHECK_CHARS:]


def _random(chars: int) -> str:
    return "".join(secrets.choice(_DIGITS) for _ in range(chars))


def _checksum(stem: str) -> str:
    rest, out = zlib.crc32(stem.encode()), ""
    for _ in range(_CHECK_CHARS):
        rest, digit = divmod(rest, len(_DIGITS))
        out = _DIGITS[digit] + out
    return out
