"""An audit chain on a real Postgres: acts, a sequencer stepped by hand, and a verifier."""

import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from penstock.audit.segments import SegmentStore, Signer
from penstock.audit.verifier import Verified, Verifier
from penstock.connectors.folder.segments import FolderSegments
from penstock.connectors.postgres.audit import PostgresAudit
from penstock.connectors.postgres.audit_chain import PostgresAuditChain, snapshot
from penstock.connectors.postgres.database import Database
from penstock.connectors.signing.heads import KeyPairHeads, KnownKeys
from penstock.connectors.signing.keys import PUBLIC
from penstock.control.sequencer import Outside, Sequencer
from penstock.domain.clock import Clock
from penstock.telemetry.metrics import Metrics
from tests.support.clock import ManualClock
from tests.support.samples import control_plane as things

TABLES = ("audit_event", "audit_link", "audit_segment", "audit_pending", "intervention")


@dataclass
class Chained:
    """A platform's log: ``folder`` holds its signing keys and, unless ``store`` is another, its segments."""

    database: Database
    folder: Path
    clock: Clock = field(default_factory=ManualClock)
    store: SegmentStore | None = None
    region: str = "eu"
    keep_s: float = 0.0
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def segments(self) -> SegmentStore:
        return self.store or FolderSegments(self.folder / "audit", self.region)

    def signer(self) -> Signer:
        return KeyPairHeads(self.folder / "signing")

    def sequencer(self) -> Sequencer:
        """Return a controller's sequencer; each call is another controller."""
        return Sequencer(
            chain=PostgresAuditChain(self.database),
            outside=Outside(signer=self.signer, store=lambda: self.segments),
            clock=self.clock,
            metrics=self.metrics,
            region=self.region,
            keep_s=self.keep_s,
            acts=lambda: True,
        )

    async def act(self, count: int = 1, target: str = "t") -> None:
        for number in range(count):
            await PostgresAudit(self.database).note(things.act("key.plan", target=f"{target}-{number}"))

    async def settle(self, *, ship: bool = True) -> None:
        """Link, sign and ship all that waits."""
        sequencer = self.sequencer()
        await sequencer.link()
        await sequencer.sign()
        if ship:
            await sequencer.ship()

    @property
    def is_signed(self) -> bool:
        return (self.folder / "signing" / PUBLIC).exists()

    async def verified(self, *, from_bucket: bool = True, since: float = 0.0) -> Verified:
        keys = KnownKeys([(self.folder / "signing" / PUBLIC).read_bytes()])
        store = self.segments if from_bucket else None
        verifier = Verifier(
            snapshot=partial(snapshot, self.database),
            is_signed=keys.is_signed,
            store=store,
            since=since,
            now=time.time(),
            progress=lambda done, of: None,
        )
        return await verifier.verify()

    async def kinds(self, *, from_bucket: bool = False) -> set[str]:
        return {str(kind) for kind in (await self.verified(from_bucket=from_bucket)).report.counts}

    async def owner(self, *statements: str) -> None:
        """Run statements as the tables' owner, who can turn triggers off."""
        async with self.database.transaction() as session:
            for table in TABLES:
                await session.run(f"alter table {table} disable trigger user")
            for statement in statements:
                await session.run(statement)
            for table in TABLES:
                await session.run(f"alter table {table} enable trigger user")

    async def keep(self) -> None:
        await self.owner(*(f"create table kept_{table} as table {table}" for table in TABLES))

    async def restore(self) -> None:
        """Put the tables back as they were kept."""
        for table in TABLES:
            always = "overriding system value " if table == "audit_event" else ""
            await self.owner(
                f"delete from {table}",  # noqa: S608  our own names
                f"insert into {table} {always}table kept_{table}",
            )
