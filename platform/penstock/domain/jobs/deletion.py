"""Deletions of what a tenant has stored: their scope, their counts, and the receipt that is signed in the end.

A user is told apart by a keyed digest: no row, no audit entry and no receipt has the name that a caller gave.
"""

import hmac
import re
from collections.abc import Iterable
from typing import NamedTuple, NewType, Protocol

from penstock.domain.ids import KINDS, TenantId
from penstock.domain.jobs.ids import ObjectId
from penstock.domain.tenancy.audit import Act
from penstock.domain.tenancy.keys import Purpose, derive

DeletionId = NewType("DeletionId", int)
_KIND = re.compile(f"^{KINDS}(?=.)")
HEARD_S = 2.0
"""Seconds within which every process has heard of a deletion: what is stored meanwhile is deleted, too."""


class Scope(NamedTuple):
    """Everything of a tenant, unless one of these bounds it."""

    tenant: TenantId
    request: str = ""
    """The id of a request, job, response, batch or file."""
    user_mark: str = ""
    before: float = 0.0

    @property
    def is_whole(self) -> bool:
        return not (self.request or self.user_mark or self.before)


class Counts(NamedTuple):
    keys: int = 0
    jobs: int = 0
    lines: int = 0
    batches: int = 0
    files: int = 0
    responses: int = 0
    answers: int = 0
    """Answers under idempotency keys: all of the tenant's, whatever the scope."""
    texts: int = 0
    """Texts of what filters matched."""
    bytes: int = 0
    unattributed: int = 0
    """Batches of which results are left and the input is gone: perhaps of the named user."""


class Deletion(NamedTuple):
    """Times are Unix seconds, 0 for not yet. ``found`` are the ids that it names; None for all, or not searched yet."""

    id: DeletionId
    scope: Scope
    until: float
    asked_by: str
    asked_at: float
    found: tuple[str, ...] | None = None
    counts: Counts = Counts()
    training_use: bool = False
    answers_at: float = 0.0
    swept_at: float = 0.0
    ended_at: float = 0.0
    receipt: str = ""
    signature: bytes = b""

    @property
    def is_unsearched(self) -> bool:
        return bool(self.scope.user_mark) and self.found is None


class DeletionStore(Protocol):
    async def begin(self, new: Deletion, act: Act) -> Deletion:
        """Store it with its audit row, and shred the keys if it is of everything; or return the open one like it."""
        ...

    async def find(self, deletion: DeletionId) -> Deletion | None: ...

    async def newest(self, tenant: TenantId | str, limit: int) -> tuple[Deletion, ...]: ...

    async def unsigned(self, limit: int) -> tuple[Deletion, ...]:
        """Return those that are swept, by runners and by a gateway."""
        ...

    async def end(self, deletion: DeletionId, receipt: str, signature: bytes, act: Act) -> bool:
        """Store the receipt with its audit row; False if it has one."""
        ...


class Owned(NamedTuple):
    """A row's name, and the objects that are deleted before it."""

    owner: str
    objects: tuple[ObjectId, ...]


def ids_of(names: Iterable[str]) -> tuple[str, ...]:
    """Return ids as callers saw them, and those of their requests."""
    return tuple(sorted({one for name in names for one in (name, _KIND.sub("", name))}))


def users(user: object, safety_identifier: object, metadata: object) -> frozenset[str]:
    """Return the end users that these fields of a request name."""
    of_anthropic = metadata.get("user_id") if isinstance(metadata, dict) else None
    return frozenset(one for one in (user, safety_identifier, of_anthropic) if isinstance(one, str) and one)


def user_mark(platform_key: bytes, tenant: TenantId, user: str) -> str:
    return hmac.digest(derive(platform_key, Purpose.USERS), f"{tenant}\x1f{user}".encode(), "sha256").hex()
