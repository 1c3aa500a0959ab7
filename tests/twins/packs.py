"""Safety packs and interventions in memory. Twin of `connectors.postgres.safety`."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from penstock.domain.errors import Conflict
from penstock.domain.ids import TenantId
from penstock.domain.tenancy.audit import Act
from penstock.filters.book import StoredPack
from penstock.filters.evidence import SealedText
from penstock.filters.intervention import Events, Intervention, RuleCount
from penstock.filters.pack import Pack
from tests.twins.audit import MemoryAudit


class MemoryPacks:
    """Versions of packs by digest, and which of each id were served, in order."""

    def __init__(self, audit: MemoryAudit) -> None:
        self._audit = audit
        self._packs: dict[str, StoredPack] = {}
        self._served: dict[str, list[str]] = {}
        self._floor: list[str] = []
        self.interventions: list[Intervention] = []
        self.kept: list[SealedText] = []

    async def packs(self) -> tuple[StoredPack, ...]:
        current = {served[-1] for served in self._served.values()}
        found = [replace(one, is_current=one.digest in current) for one in self._packs.values()]
        return tuple(sorted(found, key=lambda one: (one.pack.id, -one.pack.version)))

    async def floor(self) -> tuple[str, ...]:
        return tuple(self._floor)

    async def push(self, pack: Pack, act: Act) -> None:
        stored = {one.pack.version: one.digest for one in self._packs.values() if one.pack.id == pack.id}
        if stored.get(pack.version, pack.digest) != pack.digest:
            raise Conflict(f"{pack.name} exists with other rules: raise its version")
        if pack.version not in stored and pack.version < max(stored, default=0):
            raise Conflict(f"{pack.id}@{max(stored)} exists: raise the version above it")
        made = StoredPack(pack=pack, digest=pack.digest, is_current=False, created_at=act.at)
        self._packs.setdefault(pack.digest, made)
        await self._choose(pack.id, pack.digest, act)

    async def choose(self, pack: str, version: int | None, act: Act) -> bool:
        stored = {one.pack.version: one.digest for one in self._packs.values() if one.pack.id == pack}
        if version is None:
            served = self._served.get(pack, [""])[-1]
            present = next((number for number, digest in stored.items() if digest == served), 0)
            version = max((number for number in stored if number < present), default=0)
        if version in stored:
            await self._choose(pack, stored[version], act)
        return version in stored

    async def put_floor(self, packs: Sequence[str], act: Act) -> None:
        self._floor = list(packs)
        await self._audit.note(act)

    async def events(self, of: Events, limit: int) -> tuple[Intervention, ...]:
        found = [one for one in self.interventions if of.tenant in {"", one.tenant}]
        return tuple(sorted(found, key=lambda one: -one.at)[:limit])

    async def texts(self, of: Events, limit: int) -> tuple[tuple[Intervention, SealedText], ...]:
        kept = {(one.request, one.number): one for one in self.kept}
        found = [(one, kept.get((one.request, one.number))) for one in await self.events(of, limit)]
        return tuple((one, text) for one, text in found if text is not None)

    async def counts(self, of: Events) -> tuple[RuleCount, ...]:
        del of
        return ()

    async def served(self, of: Events) -> dict[TenantId, int]:
        del of
        return defaultdict(int)

    async def forget(self, before: float) -> None:
        self.interventions = [one for one in self.interventions if one.at >= before]

    async def _choose(self, pack: str, digest: str, act: Act) -> None:
        self._served.setdefault(pack, []).append(digest)
        await self._audit.note(replace(act, target=pack, detail=f"{act.detail} {digest[:12]}".strip()))
