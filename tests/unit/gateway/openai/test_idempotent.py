"""Idempotency keys at the edge: who answers, who repeats, what is kept, what frees its key."""

import asyncio
from collections.abc import AsyncIterator
from unittest.mock import patch

import httpx
import pytest

from penstock.connectors.memory.answers import MemoryAnswers
from penstock.domain.clock import SystemClock
from penstock.domain.errors import (
    InvalidField,
    OverLimit,
    Overloaded,
    PenstockError,
    ReaderTooSlow,
    StoreUnavailable,
)
from penstock.domain.ids import RequestId, TenantId
from penstock.domain.outcome import Outcome
from penstock.domain.serving.idempotency import KEEP_S, AnswerQuota, AnswerStore, Claim, Piece, RecordKey
from penstock.domain.serving.report import Used
from penstock.gateway.app.asgi import Edge
from penstock.gateway.calls.call import Call, Progress
from penstock.gateway.calls.relay import Reply
from penstock.gateway.openai.idempotent import Once, Use
from penstock.intake.limits import Limits
from tests.support.gateways.readers import Full
from tests.support.gateways.toy import SECRET, Toy, edge
from tests.support.samples.calls import call as a_call
from tests.support.samples.calls import principal

BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
HEADERS = {"authorization": f"Bearer {SECRET}", "idempotency-key": "order-17"}


class Gateway:
    """A gateway around a toy corridor that counts, with a real store in memory."""

    def __init__(self, answers: AnswerStore | None = None, **options: int) -> None:
        self.asked = 0
        self.uses: list[Use] = []
        self.fails: PenstockError | None = None
        self.breaks = False
        self.go_on = asyncio.Event()
        self.go_on.set()
        toy = Toy(self._serve)
        plain = edge(toy, Limits())
        self.replays: list[tuple[str, str]] = []
        self.ruled: list[tuple[bytes, bytes]] = []
        self.told: list[Used | None] = []
        store = answers or MemoryAnswers(SystemClock())
        self.once = once = Once(toy, store, count=self.uses.append, note=self._note, **options)
        fields = {name: getattr(plain, name) for name in Edge.__dataclass_fields__}
        self.app = Edge(**{**fields, "corridor": once})
        transport = httpx.ASGITransport(app=self.app)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://x")

    async def _serve(self, call: Call, reply: Reply) -> Outcome:
        self.asked += 1
        if self.fails is not None:
            raise self.fails
        call.attempts.used = Used(prompt_tokens=18, prompts=3)
        reply.start(200, [(b"content-type", b"text/event-stream"), (b"x-penstock-version", b"m@1"), *self.ruled])
        reply.write(b"data: %d\n\n" % self.asked)
        await self.go_on.wait()
        reply.write(b"data: [DONE]\n\n")
        reply.finish()
        return Outcome.BROKEN_STREAM if self.breaks else Outcome.OK

    def _note(self, call: Call, original: RequestId) -> None:
        self.told.append(call.attempts.used)
        self.replays.append((call.request.id, original))

    async def ask(self, **changes: object) -> httpx.Response:
        return await self.http.post("/v1/chat/completions", json={**BODY, **changes}, headers=HEADERS)


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    """Return a gateway."""
    one = Gateway()
    yield one
    await one.http.aclose()


async def test_a_repeated_request_gets_the_same_bytes_and_says_so(gateway: Gateway) -> None:
    """The corridor is asked once; the replay has status, type, version and body of the answer."""
    first, second = await gateway.ask(), await gateway.ask()
    assert gateway.asked == 1
    assert gateway.replays == [(second.headers["x-request-id"], first.headers["x-request-id"])]
    assert second.content == first.content
    assert gateway.told == [Used(prompt_tokens=18, prompts=3)]
    assert "idempotency-replayed" not in first.headers
    for name, value in {
        "idempotency-replayed": "true",
        "x-penstock-version": "m@1",
        "content-type": "text/event-stream",
    }.items():
        assert second.headers[name] == value
    assert "x-penstock-auto" not in second.headers


async def test_a_replay_names_the_rule_that_had_decided(gateway: Gateway) -> None:
    """Rules may have changed since: the answer's own is told, and none where none decided."""
    gateway.ruled = [(b"x-penstock-auto", b"short")]
    answers = [await gateway.ask(), await gateway.ask()]
    assert [answer.headers["x-penstock-auto"] for answer in answers] == ["short", "short"]


async def test_a_record_is_known_without_the_body(gateway: Gateway) -> None:
    """The tenant and the caller's key say whether a replay may be there; another tenant's key says nothing."""
    who, other = principal(), principal(tenant=TenantId("shop"))
    assert not await gateway.once.is_recorded(who, HEADERS["idempotency-key"])
    await gateway.ask()
    assert await gateway.once.is_recorded(who, HEADERS["idempotency-key"])
    assert not await gateway.once.is_recorded(other, HEADERS["idempotency-key"])


async def test_every_use_of_a_key_is_counted(gateway: Gateway) -> None:
    """The first, who joins it, who repeats it, and who comes with another body."""
    gateway.go_on.clear()
    asking = [asyncio.create_task(gateway.ask()) for _ in range(3)]
    await asyncio.sleep(0.05)
    gateway.go_on.set()
    await asyncio.gather(*asking)
    await gateway.ask()
    await gateway.ask(seed=1)
    assert gateway.uses == [Use.FIRST, Use.JOINED, Use.JOINED, Use.REPLAYED, Use.CONFLICTING]


async def test_requests_without_a_key_are_all_answered(gateway: Gateway) -> None:
    """Nothing is kept that nobody asked to keep."""
    for _ in range(2):
        await gateway.http.post("/v1/chat/completions", json=BODY, headers={"authorization": HEADERS["authorization"]})
    assert gateway.asked == 2


async def test_another_body_under_the_same_key_is_refused(gateway: Gateway) -> None:
    """422, and the corridor is not asked; the order of a body's fields is no difference."""
    await gateway.ask(seed=1, top_p=1)
    refused = await gateway.ask(seed=2, top_p=1)
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "idempotency_mismatch")
    assert (await gateway.ask(top_p=1, seed=1)).status_code == 200
    assert gateway.asked == 1


async def test_a_request_joins_the_answer_in_flight(gateway: Gateway) -> None:
    """Two at the same time are one request of the corridor."""
    gateway.go_on.clear()
    asking = [asyncio.create_task(gateway.ask()) for _ in range(5)]
    await asyncio.sleep(0.05)
    gateway.go_on.set()
    answers = await asyncio.gather(*asking)
    assert gateway.asked == 1
    assert len({answer.content for answer in answers}) == 1
    assert sorted(answer.headers.get("idempotency-replayed", "") for answer in answers) == [""] + ["true"] * 4


@pytest.mark.parametrize("error", [OverLimit(retry_after_s=1.0), Overloaded(), PenstockError()])
async def test_what_never_started_or_failed_frees_its_key(gateway: Gateway, error: PenstockError) -> None:
    """A refusal of the moment is not kept: the retry is answered."""
    gateway.fails = error
    assert (await gateway.ask()).status_code in {429, 500, 503}
    gateway.fails = None
    assert (await gateway.ask()).status_code == 200
    assert gateway.asked == 2


async def test_a_refusal_takes_no_room(gateway: Gateway) -> None:
    """Finding 11: the same 400 again, each time from the corridor; nothing is kept of it."""
    gateway.fails = InvalidField("no", param="seed")
    first, second = await gateway.ask(), await gateway.ask()
    assert (first.status_code, second.status_code, gateway.asked) == (400, 400, 2)
    assert "idempotency-replayed" not in second.headers
    gateway.fails = None
    assert (await gateway.ask()).status_code == 200


async def test_a_tenant_whose_room_is_all_under_way_hears_so() -> None:
    """429 before anything ran, with when to come back."""
    gateway = Gateway(MemoryAnswers(SystemClock(), AnswerQuota(max_records=0)))
    answer = await gateway.ask()
    assert (answer.status_code, answer.headers["retry-after"], gateway.asked) == (429, "1", 0)
    await gateway.http.aclose()


async def test_an_answer_without_room_is_passed_on_and_frees_nobody_elses_record() -> None:
    """Given up on its way, it is not released at its end: by then the key may be another request's."""
    answers = MemoryAnswers(SystemClock(), AnswerQuota(max_bytes=10))
    released: list[RecordKey] = []
    gateway = Gateway(answers)
    release = answers.release

    async def counted(key: RecordKey) -> None:
        released.append(key)
        await release(key)

    with patch.object(answers, "release", counted):
        assert (await gateway.ask()).text.endswith("data: [DONE]\n\n")
    assert len(released) == 1, "by the store itself, for want of room"
    await gateway.http.aclose()


async def test_a_broken_stream_is_not_kept(gateway: Gateway) -> None:
    """An answer with an error in band frees its key."""
    gateway.breaks = True
    await gateway.ask()
    gateway.breaks = False
    assert "idempotency-replayed" not in (await gateway.ask()).headers
    assert gateway.asked == 2


async def test_who_waited_for_a_refused_request_takes_its_place(gateway: Gateway) -> None:
    """The follower of a request that never started runs by itself."""
    started = asyncio.Event()

    class Slow(MemoryAnswers):
        async def release(self, key: RecordKey) -> None:
            started.set()
            await asyncio.sleep(0.05)
            gateway.fails = None
            await super().release(key)

    gateway = Gateway(Slow(SystemClock()))
    gateway.fails = OverLimit()
    first = asyncio.create_task(gateway.ask())
    await started.wait()
    assert (await gateway.ask()).status_code == 200
    assert (await first).status_code == 429
    await gateway.http.aclose()


async def test_an_answer_beyond_the_bound_is_passed_on_and_not_kept() -> None:
    """The caller gets all of it; the next one asks again."""
    gateway = Gateway(max_bytes=10)
    assert (await gateway.ask()).text.endswith("data: [DONE]\n\n")
    assert "idempotency-replayed" not in (await gateway.ask()).headers
    assert gateway.asked == 2
    await gateway.http.aclose()


class Away(MemoryAnswers):
    """A store that is away, from the start or after the claim."""

    def __init__(self, *, claims: bool) -> None:
        super().__init__(SystemClock())
        self.claims = claims

    async def claim(self, key: RecordKey, fingerprint: str) -> Claim:
        if not self.claims:
            raise StoreUnavailable
        return await super().claim(key, fingerprint)

    async def append(self, key: RecordKey, piece: Piece, keep_s: float = KEEP_S) -> None:
        raise StoreUnavailable


async def test_with_the_store_away_a_promise_is_not_made() -> None:
    """503 before anything ran; retryable."""
    gateway = Gateway(Away(claims=False))
    answer = await gateway.ask()
    assert (answer.status_code, answer.headers["x-should-retry"], gateway.asked) == (503, "true", 0)
    await gateway.http.aclose()


async def test_a_store_lost_on_the_way_does_not_harm_the_answer() -> None:
    """What has begun is answered in full; it is not kept."""
    gateway = Gateway(Away(claims=True))
    assert (await gateway.ask()).text.endswith("data: [DONE]\n\n")
    assert (await gateway.ask()).status_code == 200
    assert gateway.asked == 2
    await gateway.http.aclose()


async def test_a_follower_that_does_not_read_is_cut_off(gateway: Gateway) -> None:
    """A replay obeys its reader's pace, and ends where the reader takes nothing for too long."""
    answers = MemoryAnswers(SystemClock())
    once, reply = Once(Toy(gateway._serve), answers, stall_s=0.05), Full()
    await once.serve(Progress(a_call(idempotency_key="k")), Full())
    with pytest.raises(ReaderTooSlow):
        await once.serve(Progress(a_call(idempotency_key="k")), reply)
    assert (reply.gone, reply.sent, gateway.asked) == (True, b"", 1)
