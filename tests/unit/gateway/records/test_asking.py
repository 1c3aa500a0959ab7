"""Who may read which record."""

import asyncio
from collections.abc import Mapping

import pytest

from penstock.domain.errors import OverLimit, UnknownRequest
from penstock.domain.ids import KeyId, TenantId
from penstock.domain.serving.request_record import RequestRecord
from penstock.domain.tenancy.tenant import OPERATORS, Principal, Role
from penstock.gateway.records.asking import RecordLookup
from tests.support.samples.calls import principal

RECORD = RequestRecord("req-1", "acme", "k", 0.0, "/v1/chat/completions", "ok", 1.0)


class Kept:
    """Records by name; answers when it is let."""

    def __init__(self, records: Mapping[str, RequestRecord]) -> None:
        self.records, self.may_answer = records, asyncio.Event()
        self.may_answer.set()

    async def find(self, request_id: str) -> RequestRecord | None:
        await self.may_answer.wait()
        return self.records.get(request_id)

    async def last_attempt(self, job: str) -> RequestRecord | None:
        return next((self.records[name] for name in sorted(self.records, reverse=True) if name.startswith(job)), None)


ACME, OTHER = TenantId("acme"), TenantId("other")


@pytest.mark.parametrize(
    ("who", "sees"),
    [
        (principal(tenant=ACME, key=KeyId("k")), True),
        (principal(tenant=ACME, key=KeyId("second")), False),
        (principal(tenant=ACME, key=KeyId("a"), role=Role.AUDITOR), True),
        (principal(tenant=OTHER, key=KeyId("k")), False),
        (principal(tenant=OTHER, key=KeyId("o"), role=Role.ADMIN), False),
        (principal(tenant=OPERATORS, key=KeyId("k"), role=Role.INFER), False),
        (principal(tenant=OPERATORS, key=KeyId("op"), role=Role.AUDITOR), True),
    ],
)
async def test_a_key_sees_what_is_its_own(who: Principal, sees: bool) -> None:
    """Its own requests, the tenant's with a role for that, all with an operator's: everything else is unknown."""
    asking = RecordLookup(Kept({"req-1": RECORD}))
    if sees:
        assert await asking.find(who, "req-1") == RECORD
        return
    with pytest.raises(UnknownRequest) as strange:
        await asking.find(who, "req-1")
    with pytest.raises(UnknownRequest) as unknown:
        await asking.find(who, "req-2")
    assert strange.value.message == unknown.value.message


@pytest.mark.parametrize("job", ["job_0123456789abcdef", "resp_0123456789abcdef", "batch_req_0123456789abcdef"])
async def test_a_jobs_own_id_gives_its_last_attempt(job: str) -> None:
    """Callers hold the job's id, the ledger that of each attempt; a live request's id is never a beginning."""
    records = {f"{job}-{number}": RECORD._replace(id=f"{job}-{number}") for number in (1, 2)}
    asking = RecordLookup(Kept(records | {"req-12": RECORD}))
    who = principal(tenant=ACME, key=KeyId("k"))
    assert (await asking.find(who, job)).id == f"{job}-2"
    with pytest.raises(UnknownRequest):
        await asking.find(who, "req-1")


@pytest.mark.parametrize("name", ["req-1", "chatcmpl-req-1", "cmpl-req-1", "resp_req-1"])
async def test_the_id_in_an_answer_is_the_requests(name: str) -> None:
    """Whoever holds an answer of an SDK has its id, with the kind of answer before it."""
    assert await RecordLookup(Kept({"req-1": RECORD})).find(principal(tenant=ACME, key=KeyId("k")), name) == RECORD


@pytest.mark.parametrize("name", ["", "../spool", 'req"', "req\n", "x" * 200])
async def test_what_is_no_id_is_unknown(name: str) -> None:
    """Nothing that is no request's id comes near the files."""
    with pytest.raises(UnknownRequest):
        await RecordLookup(Kept({name: RECORD})).find(principal(), name)


async def test_a_key_asks_for_one_record_at_a_time() -> None:
    """A second question of the same key is refused while the first reads; other keys' are not."""
    kept = Kept({"req-1": RECORD})
    asking = RecordLookup(kept)
    kept.may_answer.clear()
    first = asyncio.create_task(asking.find(principal(), "req-1"))
    await asyncio.sleep(0)
    with pytest.raises(OverLimit):
        await asking.find(principal(), "req-1")
    kept.may_answer.set()
    assert await first == RECORD
    assert await asking.find(principal(), "req-1") == RECORD


@pytest.mark.parametrize("name", ["cmpl-evil-1", "msg_-1", "resp_"])
async def test_a_callers_id_that_begins_like_an_answers_is_found(name: str) -> None:
    """A caller named its requests like answers, and neither it nor an operator could ask what became of them."""
    assert await RecordLookup(Kept({name: RECORD})).find(principal(tenant=ACME, key=KeyId("k")), name) == RECORD
