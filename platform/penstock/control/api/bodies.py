"""What comes in and goes out, where it is not a noun of the domain itself. Unknown fields are refused."""

from typing import Any

import msgspec

from penstock.domain.ids import Alias, ModelName, TenantId, VersionId, WorkerId
from penstock.domain.model import Manifest, Task, Tier
from penstock.domain.money import Price
from penstock.domain.table import Route, Share
from penstock.domain.tenant import ApiKey, Plan, Role
from penstock.domain.worker import Load, PhaseTiming, WorkerState


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body that has exactly these fields."""


class NewModel(Strict, frozen=True):
    """A version to register. ``signature`` names the signature in the artifact store, ``signatures/<digest>``."""

    manifest: Manifest
    signature: str


class NewShares(Strict, frozen=True):
    """Where an alias leads."""

    shares: tuple[Share, ...]


class NewReplicas(Strict, frozen=True):
    """How many workers of a version there should be."""

    replicas: int


class NewTenant(Strict, frozen=True):
    """A tenant to be."""

    id: str
    name: str = ""
    plan: Plan = Plan()


class NewKey(Strict, frozen=True):
    """A key to be; ``expires_in_s`` 0 means never."""

    tenant: TenantId
    role: Role = Role.INFER
    models: tuple[Alias, ...] = ()
    expires_in_s: float = 0.0


class Rotation(Strict, frozen=True):
    """For how long the old key works on."""

    overlap_s: float = 3600.0


class RollBack(Strict, frozen=True):
    """Which table to go back to."""

    number: int


class KeyShown(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its hash."""

    id: str
    tenant: str
    role: Role
    models: tuple[Alias, ...]
    created_at: float
    expires_at: float
    revoked_at: float


class KeyMade(KeyShown, frozen=True, kw_only=True):
    """A new key with its secret, this one time."""

    secret: str


class ModelShown(msgspec.Struct, frozen=True, kw_only=True):
    """A version in a list."""

    id: VersionId
    name: ModelName
    task: Task
    tier: Tier
    price: Price
    licence: str
    size_bytes: int
    created_at: float
    replicas: int
    aliases: tuple[Alias, ...]


class WorkerShown(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as its last heartbeat told; ``age_s`` is how long ago that was."""

    id: WorkerId
    version: VersionId
    state: WorkerState
    url: str
    zone: str
    pid: int
    load: Load
    phases: tuple[PhaseTiming, ...]
    detail: str
    ready_in_s: float
    restarts: int
    age_s: float
    draining: bool


class TableShown(msgspec.Struct, frozen=True, kw_only=True):
    """A table in the history."""

    number: int
    made_at: float
    routes: tuple[Route, ...]
    workers: int
    ready: int


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """This controller at a glance."""

    leader: bool
    ready: bool
    table: int
    table_made_at: float
    failed_ticks: int
    workers: dict[str, int]


def key_fields(key: ApiKey) -> dict[str, Any]:
    """Return what may be shown of a key."""
    return {
        "id": key.id,
        "tenant": key.tenant,
        "role": key.role,
        "models": key.models,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
    }
