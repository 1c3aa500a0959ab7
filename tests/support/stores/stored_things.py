"""One of everything that is stored for a tenant, sealed in a folder, with rows in a real Postgres."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from penstock.connectors.payloads.folder import FolderObjects
from penstock.connectors.payloads.store import SealedPayloads
from penstock.connectors.postgres.audit import PostgresAudit
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.deletions import PostgresDeletions, PostgresErasing
from penstock.connectors.postgres.jobs import PostgresJobs
from penstock.connectors.postgres.ledger import PostgresLedger
from penstock.connectors.postgres.tenant_keys import PostgresTenantKeys
from penstock.connectors.signing.heads import KeyPairHeads
from penstock.control.receipts import Receipts
from penstock.domain.clock import Clock
from penstock.domain.ids import Alias, KeyId, TenantId, VersionId
from penstock.domain.jobs.deletion import Counts, Deletion, DeletionId, Scope, ids_of, user_mark
from penstock.domain.jobs.ids import JobName, ObjectId
from penstock.domain.jobs.job import EnqueueLimits, JobKind, NewJob
from penstock.domain.jobs.payload import Extent, object_id
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.audit import Act
from penstock.filters import evidence
from penstock.filters.evidence import MatchText
from penstock.jobs.erasing import Erasing
from penstock.sealing.keys import KeyPurpose, PurposeKeys, TenantKeys
from penstock.sealing.local import LocalEncryption
from tests.support.samples.interventions import intervention

PLATFORM_KEY = b"p" * 32
SAID = "the patient's diagnosis"


def body(user: str) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": SAID}], "user": user}).encode()


@dataclass
class Stored:
    """A process's stores. Ids of a tenant's things are ``<kind><its name><number>``."""

    database: Database
    folder: Path
    clock: Clock
    objects: dict[ObjectId, TenantId] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.payloads = self.process()
        self.deletions = PostgresDeletions(self.database)

    def keys(self) -> PurposeKeys:
        encryption = LocalEncryption(lambda: [PLATFORM_KEY])
        keys = TenantKeys(PostgresTenantKeys(self.database), encryption, self.clock.monotonic, "eu")
        return PurposeKeys(keys, KeyPurpose.CONTENT, tuple)

    def process(self) -> SealedPayloads:
        """Return another process's store: it has read no key yet."""
        return SealedPayloads(FolderObjects(self.folder / "payloads"), self.keys())

    def erasing(self) -> Erasing:
        def marks(tenant: TenantId, user: str) -> tuple[str, ...]:
            return (user_mark(PLATFORM_KEY, tenant, user),)

        return Erasing(PostgresErasing(self.database), self.payloads, self.keys(), marks)

    def receipts(self) -> Receipts:
        return Receipts(
            store=self.deletions,
            signer=lambda: KeyPairHeads(self.folder / "signing"),
            clock=self.clock,
            region="eu",
            acts=lambda: True,
        )

    async def put(self, tenant: TenantId, name: ObjectId, data: bytes) -> Extent:
        await self.payloads.put(tenant, name, data)
        self.objects[name] = tenant
        return Extent(object=name, size=len(data))

    async def job(self, tenant: TenantId, number: int, user: str, kind: JobKind = JobKind.JOB) -> JobName:
        """Store a job that has ended, with its answer; of a batch's line the answer alone."""
        name, now = JobName(f"{kind}{tenant}{number:014d}"), self.clock.now()
        given = await self.put(tenant, object_id("job", name, "input"), body(user))
        new = NewJob(
            name=name, tenant=tenant, key=KeyId("k"), kind=kind, api=Api.CHAT, model=Alias("m"),
            version=VersionId("m@1"), cost_tokens=1, created_at=now, deadline_at=now + 1000, keep_s=60.0, input=given,
        )  # fmt: skip
        await PostgresJobs(self.database).submit(new, EnqueueLimits())
        answer = await self.put(tenant, object_id("job", name, "1"), b"answer")
        await self.database.rows(
            "update job set state = 'succeeded', ended_at = $2, expires_at = $2::double precision + 60, "
            "output_object = $3, output_bytes = 6, request = name || '-1' where name = $1",
            name, now, answer.object,
        )  # fmt: skip
        return name

    async def file(self, tenant: TenantId, name: str, purpose: str, data: bytes) -> str:
        stored = await self.put(tenant, object_id("file", name), data)
        await self.database.rows(
            "insert into file (id, tenant, key, name, purpose, bytes, created_at, expires_at, object, state) "
            "values ($1, $2, 'k', 'n', $3, $4, $5, 0, $6, 'ready')",
            name, tenant, purpose, len(data), self.clock.now(), stored.object,
        )  # fmt: skip
        return name

    async def batch(self, tenant: TenantId, number: int, user: str) -> str:
        """Store a batch that runs, with two ended lines, its input and its results."""
        name = f"batch_{tenant}{number}"
        line = json.dumps({"custom_id": "1", "body": json.loads(body(user))}).encode()
        others = json.dumps({"custom_id": "2", "body": json.loads(body("another"))}).encode()
        source = await self.file(tenant, f"file-in{tenant}{number}", "batch", others + b"\n" + line)
        output = await self.file(tenant, f"file-out{tenant}{number}", "batch_output", b"results")
        await self.database.rows(
            "insert into batch (id, tenant, key, endpoint, input_file, input_object, completion_window, state, "
            "created_at, deadline_at, output_file) values ($1, $2, 'k', 'e', $3, 'o', '24h', 'in_progress', $4, 0, $5)",
            name, tenant, source, self.clock.now(), output,
        )  # fmt: skip
        segment = await self.put(tenant, object_id("batch", name, "7-1"), b"answers")
        for index in (1, 2):
            await self.database.rows(
                "insert into job (name, tenant, key, batch, line, kind, api, model, version, cost_tokens, state, "
                "deadline_at, created_at, keep_s, input_object, output_object, output_bytes) values "
                "($1, $2, 'k', $3, $4, 'line', 'e', 'm', 'v', 1, 'succeeded', 0, $5, 0, 'o', $6, 3)",
                f"{name}-{index}", tenant, name, index, self.clock.now(), segment.object,
            )  # fmt: skip
        return name

    async def response(self, tenant: TenantId, number: int, user: str | None, earlier: str | None = None) -> str:
        """Store a response with an event's piece, perhaps one that continues from an earlier one."""
        name = f"resp_{tenant}{number:012d}"
        kept = json.dumps({"output": SAID, "user": user, "previous_response_id": earlier}).encode()
        stored = await self.put(tenant, object_id("response", name[-16:]), b"[]" + kept)
        piece = await self.put(tenant, object_id("response", name[-16:], "1-0"), b"event")
        await self.database.rows(
            "insert into stored_response (id, tenant, object, created_at, expires_at, begin_bytes, input_at, "
            "input_bytes, body_at, body_bytes, is_background, keeps_events) "
            "values ($1, $2, $3, $4, 'infinity', 0, 0, 2, 2, $5, false, true)",
            name, tenant, stored.object, self.clock.now(), len(kept),
        )  # fmt: skip
        await self.database.rows(
            'insert into response_events (response, epoch, "first", "last", object, items, open) '
            "values ($1, 1, 0, 0, $2, 0, '{}')", name, piece.object,
        )  # fmt: skip
        return name

    async def everything(self, tenant: TenantId, number: int = 1, user: str = "u") -> Counts:
        """Store one of each kind under the present key, and return what a deletion of it counts."""
        self.payloads = self.process()
        await self.job(tenant, number, user)
        await self.batch(tenant, number, user)
        await self.response(tenant, number, user)
        rows = await self.database.rows(
            "select (select sum(bytes) from file where id like $1) + (select input_bytes + 6 from job where name = $2) "
            "+ 6 + (select input_bytes + body_bytes from stored_response where id = $3) as bytes",
            f"%{tenant}{number}", f"job{tenant}{number:014d}", f"resp_{tenant}{number:012d}",
        )  # fmt: skip
        return Counts(jobs=1, lines=2, batches=1, files=2, responses=1, bytes=int(rows[0]["bytes"]))

    async def match(self, tenant: TenantId, request: str, *users: str, ago_s: float = 0.0) -> None:
        """Keep the text of a match in a request that names these users."""
        of = intervention(request, tenant=tenant, at=self.clock.now() - ago_s)
        text = evidence.sealed(of, MatchText(SAID, users), await self.keys().newest(tenant), 60.0)
        await PostgresLedger(self.database).keep([text])

    async def matches(self) -> list[str]:
        """Return requests of which texts are kept."""
        rows = await self.database.rows("select request from intervention_text order by request, number")
        return [row["request"] for row in rows]

    async def ask(self, scope: Scope, found: tuple[str, ...] | None = None, until: float = 0.0) -> DeletionId:
        now = self.clock.now()
        new = Deletion(
            id=DeletionId(0), scope=scope, until=until or now, asked_by="k", asked_at=now,
            found=ids_of([scope.request]) if scope.request else found,
        )  # fmt: skip
        act = Act(who="k", what="privacy.delete", target=scope.tenant, at=now, tenant=scope.tenant)
        return (await self.deletions.begin(new, act)).id

    async def heard(self) -> None:
        """A gateway has dropped the answers."""
        await self.database.rows("update privacy_deletion set answers_at = 1 where ended_at = 0")

    async def done(self, deletion: DeletionId) -> Deletion:
        found = await self.deletions.find(deletion)
        assert found is not None
        return found

    async def left(self, tenant: TenantId) -> int:
        """Return the number of the tenant's rows that stand for something stored."""
        (row,) = await self.database.rows(
            "select (select count(*) from job where tenant = $1) + (select count(*) from batch where tenant = $1) "
            "+ (select count(*) from file where tenant = $1) "
            "+ (select count(*) from stored_response where tenant = $1) as rows",
            tenant,
        )
        return int(row["rows"])

    async def acts(self, what: str) -> list[Act]:
        return [act for act in await PostgresAudit(self.database).newest(99) if act.what == what]
