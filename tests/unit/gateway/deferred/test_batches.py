"""Batches over HTTP: bodies checked by field, batches as OpenAI's SDK reads them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import httpx
import pytest
from openai.types import Batch as SdkBatch

from penstock.domain.errors import UnknownObject
from penstock.domain.ids import VersionId
from penstock.domain.jobs import batch as batches
from penstock.domain.jobs.batch import Batch, BatchState, Counts, LineFault, Tokens
from penstock.domain.jobs.ids import BatchId, FileId
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.deferred.batches import NewBatch, add_batches, told
from penstock.gateway.deferred.shapes import Paged
from penstock.intake.limits import Limits
from tests.support.gateways.toy import SECRET, Toy, edge, hello
from tests.unit.domain.jobs.test_batch import NEW

BATCH = replace(NEW, id=BatchId("batch_0123456789ab"), input_file=FileId("file-0123456789ab"))
BODY = {"input_file_id": BATCH.input_file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}


@dataclass
class Desk:
    """A service that has one batch, and notes what it was asked for."""

    wishes: list[NewBatch] = field(default_factory=list)
    pages: list[Paged] = field(default_factory=list)

    async def create(self, who: Principal, wish: NewBatch) -> tuple[Batch, bool]:
        self.wishes.append(wish)
        return BATCH, wish.idempotency_key == "again"

    async def find(self, who: Principal, batch: BatchId) -> Batch:
        if batch != BATCH.id:
            raise UnknownObject
        return BATCH

    async def page(self, who: Principal, page: Paged) -> tuple[Sequence[Batch], bool]:
        self.pages.append(page)
        return [BATCH], True

    async def cancel(self, who: Principal, batch: BatchId) -> Batch:
        return batches.cancelling(await self.find(who, batch), 200.0)

    async def pause(self, who: Principal, batch: BatchId) -> Batch:
        return batches.paused(await self.find(who, batch), 200.0)

    async def resume(self, who: Principal, batch: BatchId) -> Batch:
        return batches.resumed(await self.find(who, batch))


async def ask(
    method: str, path: str, body: object = None, *, desk: Desk | None = None, headers: Mapping[str, str] | None = None
) -> httpx.Response:
    app = edge(Toy(hello), Limits(), deferred=(partial(add_batches, batches=desk or Desk()),))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://g") as http:
        sent = {"authorization": f"Bearer {SECRET}", **(headers or {})}
        return await http.request(method, f"/v1/batches{path}", headers=sent, json=body)


async def test_create() -> None:
    """The wish has what the body says; an answer to a repeated request says so."""
    desk = Desk()
    more = {"metadata": {"run": "7"}, "output_expires_after": {"anchor": "created_at", "seconds": 3_600}}
    told = await ask("POST", "", BODY | more, desk=desk, headers={"idempotency-key": "again"})
    assert (told.status_code, told.json()["status"]) == (200, "validating")
    assert told.headers["idempotency-replayed"] == "true"
    (wish,) = desk.wishes
    assert (wish.input_file, wish.window, wish.output_keep_s) == (BATCH.input_file, "24h", 3_600.0)
    assert (wish.metadata, wish.idempotency_key) == ({"run": "7"}, "again")


WRONG: dict[str, tuple[dict[str, Any], int, str | None]] = {
    "no file": ({"input_file_id": None}, 400, "input_file_id"),
    "no id": ({"input_file_id": "../etc"}, 404, None),
    "another kind of id": ({"input_file_id": BATCH.id}, 404, None),
    "an unknown endpoint": ({"endpoint": "/v1/moderations"}, 400, "endpoint"),
    "an unknown field": ({"priority": "high"}, 400, "priority"),
    "17 pairs": ({"metadata": {str(number): "" for number in range(17)}}, 400, "metadata"),
    "a long value": ({"metadata": {"run": "x" * 513}}, 400, "metadata"),
    "a number in metadata": ({"metadata": {"run": 7}}, 400, "metadata"),
    "an anchor": ({"output_expires_after": {"anchor": "now", "seconds": 3_600}}, 400, "output_expires_after.anchor"),
    "seconds": ({"output_expires_after": {"anchor": "created_at", "seconds": 9}}, 400, "output_expires_after.seconds"),
}


@pytest.mark.parametrize("kind", WRONG)
async def test_bad_bodies_name_the_field(kind: str) -> None:
    """Each wrong field is refused by name, and no batch is made."""
    desk, (change, status, param) = Desk(), WRONG[kind]
    told = await ask("POST", "", BODY | change, desk=desk)
    assert (told.status_code, desk.wishes) == (status, [])
    assert param is None or str(told.json()["error"]["param"]).startswith(param)


@pytest.mark.parametrize(
    ("act", "shown"), [("cancel", "cancelling_at"), ("pause", "paused_at"), ("resume", "created_at")]
)
async def test_acts(act: str, shown: str) -> None:
    """Cancel, pause and resume answer with the batch; of others' batches nobody learns anything."""
    assert (await ask("POST", f"/{BATCH.id}/{act}")).json()[shown] in (100, 200)
    assert (await ask("POST", f"/batch_ffffffffffff/{act}")).status_code == 404
    assert (await ask("POST", f"/{BATCH.input_file}/{act}")).status_code == 404


async def test_lists_have_pages() -> None:
    """``after`` and ``limit`` are passed on; the ends of the page are named."""
    desk = Desk()
    told = (await ask("GET", f"?after={BATCH.id}&limit=5", desk=desk)).json()
    assert (told["first_id"], told["last_id"], told["has_more"]) == (BATCH.id, BATCH.id, True)
    assert desk.pages == [Paged(after=BATCH.id, limit=5)]


def test_every_field_is_one_of_the_sdks() -> None:
    """OpenAI's SDK reads each of its fields; ours are three more, and what is not summed is null."""
    fault = LineFault(code="invalid_url", message="url must be the batch's endpoint", param="url", line=3)
    one = replace(
        BATCH,
        state=BatchState.COMPLETED,
        times={BatchState.IN_PROGRESS: 101.5, BatchState.COMPLETED: 103.0},
        faults=(fault,),
        versions={"toy": VersionId("toy@1")},
        counts=Counts(total=3, completed=2, failed=1),
        tokens=Tokens(prompt=5, output=7),
        output_file=FileId("file-1"),
    )
    known: Any = SdkBatch.construct(None, **told(one))
    assert told(one).keys() - SdkBatch.model_fields.keys() == {"versions", "paused_at", "reason"}
    assert SdkBatch.model_fields.keys() <= told(one).keys()
    assert (known.model, known.in_progress_at, known.completed_at, known.error_file_id) == ("toy", 101, 103, None)
    assert (known.usage.total_tokens, known.usage.input_tokens_details.cached_tokens) == (12, None)
    assert [one.line for one in (known.errors and known.errors.data) or ()] == [3]
    assert told(replace(one, versions={"a": VersionId("a@1"), "b": VersionId("b@1")}))["model"] is None
