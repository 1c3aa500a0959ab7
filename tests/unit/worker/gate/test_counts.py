"""The gate tells what a request took of the engine: with each answer, and when it is asked."""

import asyncio
import json
from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any

import pytest
import structlog
from starlette.types import Message, Receive, Send

from penstock.domain.ids import RequestId, TenantId, VersionId, WorkerId
from penstock.domain.serving.report import Report, Used
from penstock.domain.serving.slo import NO_PROMISE, TimedPromise
from penstock.domain.serving.ticket import HEADER, Ticket, binding_of, seal
from penstock.domain.tenancy.standing import Standing
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.formats.report import COMMENT, decode, encode
from penstock.telemetry import names
from penstock.worker import meter as meter_module
from penstock.worker.gate import corridor, in_flight
from penstock.worker.gate.corridor import Gate
from penstock.worker.gate.queueing.work import Work
from penstock.worker.gate_config import GateConfig
from penstock.worker.meter import Meter, current
from tests.support.clock import ManualClock

KEY = b"\x01" * 32
CONFIG = GateConfig(worker=WorkerId("w1"), version=VersionId("m@1"), ticket_key=KEY.hex(), max_num_seqs=2)
TICKET = Ticket(
    request=RequestId("r"),
    tenant=TenantId("acme"),
    standing=Standing.PAID,
    weight=1,
    deadline_at=ManualClock().now() + 30,
    prompt_tokens=10,
    expected_output_tokens=100,
)
LAST = {
    "/v1/chat/completions": b"data: [DONE]\n\n",
    "/v1/completions": b"data: [DONE]\n\n",
    "/v1/responses": b'event: response.completed\ndata: {"x":1}\n\n',
    "/v1/messages": b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
}


@pytest.fixture(autouse=True)
def _filled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let somebody fill meters."""
    monkeypatch.setattr(meter_module, "_filled", ["test"])


class Engine:
    """Takes a prompt of 12 tokens, makes one token a chunk; ``counts`` where somebody counts beside it."""

    def __init__(self, chunks: list[bytes], kind: bytes, *, counts: bool = True, status: int = 200) -> None:
        self.chunks, self.kind, self.counts, self.status = chunks, kind, counts, status

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        meter = current.get()
        assert meter is not None
        is_stream = self.kind.startswith(b"text/event-stream")
        if self.counts and self.status == 200:
            meter.prompt(12)
            meter.enter()
            if not is_stream:
                meter.made(len(self.chunks))
                meter.leave()
        await send({"type": "http.response.start", "status": self.status, "headers": [(b"content-type", self.kind)]})
        for chunk in self.chunks:
            if self.counts and is_stream and b"token" in chunk:
                meter.made(1)
                if b"last" in chunk:
                    meter.leave()
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def ask(gate: Gate, path: str, ticket: Ticket = TICKET, body: bytes = b"") -> tuple[Message, bytes]:
    """Send one request through the gate; return the answer's head and body."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(HEADER.encode(), seal(ticket, KEY, binding_of(path, body), gate.clock.now()).encode())]
    await gate(
        {"type": "http", "method": "POST", "path": path, "headers": headers, "client": ("127.0.0.1", 1)}, receive, send
    )
    return sent[0], b"".join(message["body"] for message in sent[1:])


def told(head: Message) -> Used | None:
    """Return the count in a head."""
    return decode(dict(head["headers"]).get(b"x-penstock-report", b"")).used


def counted(output_tokens: int) -> Used:
    return Used(prompt_tokens=12, output_tokens=output_tokens, sequences=1, prompts=1, waited_s=0.0)


@pytest.mark.parametrize("path", LAST)
async def test_a_stream_tells_in_front_of_its_last_event(path: str, clock: ManualClock) -> None:
    """The count comes with a stream's last event and in no other place, whatever its API."""
    chunks = [b"data: token\n\n", b"data: token\n\n", b"data: last token\n\n", b"data: usage\n\n", LAST[path]]
    head, body = await ask(Gate(Engine(chunks, b"text/event-stream; charset=utf-8"), CONFIG, clock), path)
    assert told(head) is None
    assert body == b"".join(chunks[:-1]) + COMMENT + encode(Report(used=counted(3))) + b"\n" + LAST[path]


async def test_a_whole_answer_tells_in_its_head(clock: ManualClock) -> None:
    """An answer in one piece is known before its head goes out, whatever its content type."""
    for kind in (b"application/json", b"application/octet-stream"):
        head, body = await ask(Gate(Engine([b"vectors"], kind), CONFIG, clock), "/v1/embeddings")
        assert (told(head), body) == (counted(1), b"vectors")


async def test_a_refusal_by_the_engine_took_nothing(clock: ManualClock) -> None:
    """What the engine did not accept is known to have taken nothing: nobody needs to ask."""
    head, _ = await ask(Gate(Engine([b"{}"], b"application/json", status=400), CONFIG, clock), "/v1/completions")
    assert told(head) == Used(waited_s=0.0)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (500, b'{"error":{"message":"secret","type":"InternalServerError"}}', "InternalServerError"),
        (500, b'{"error":{"message":"secret","type":"my secret"}}', "unknown"),
        (500, b"secret", "unknown"),
        (200, b'data: {"error":{"message":"secret","type":"KeyError"}}\n\n', "KeyError"),
        (200, b'event: error\ndata: {"error":{"message":"secret","type":"api_error"}}\n\n', "api_error"),
    ],
)
async def test_a_failure_is_logged_by_its_type(status: int, body: bytes, kind: str, clock: ManualClock) -> None:
    """The line has request, status and type, and none of the engine's words; it comes once."""
    with structlog.testing.capture_logs() as lines:
        await ask(Gate(Engine([body, body], b"application/json", status=status), CONFIG, clock), "/v1/completions")
    (line,) = [{**line} for line in lines if line["event"] == "engine_failed"]
    assert (line["request_id"], line["status"], line["error_type"]) == ("r", status, kind)
    assert "secret" not in str(line)


@pytest.mark.parametrize("kind", [b"application/json", b"text/event-stream"])
async def test_unknown_is_not_nothing(kind: bytes, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside an engine that nobody counts nothing is told: a count of 0 would be a bill of 0."""
    monkeypatch.setattr(meter_module, "_filled", [])
    head, body = await ask(
        Gate(Engine([b"data: [DONE]\n\n"], kind, counts=False), CONFIG, clock), "/v1/chat/completions"
    )
    assert (told(head), body) == (None, b"data: [DONE]\n\n")


async def test_the_platform_may_ask_by_name(clock: ManualClock) -> None:
    """Counts of requests that ended are told to the platform's own ticket, unknown names are left out."""
    gate = Gate(Engine([b"data: token\n\n"], b"text/event-stream"), CONFIG, clock)
    await ask(gate, "/v1/completions")
    asking = json.dumps({"requests": ["r", "other"], "wait_s": 1}).encode()
    head, body = await ask(gate, "/penstock/usage", replace(TICKET, tenant=PLATFORM), asking)
    assert head["status"] == 200
    assert json.loads(body) == {
        "r": {
            "prompt_tokens": 12,
            "cached_tokens": 0,
            "output_tokens": 1,
            "sequences": 1,
            "prompts": 1,
            "is_final": True,
            "steps": None,
            "beside": None,
            "engine_us": None,
            "waited_s": 0.0,
        }
    }


@pytest.mark.parametrize(
    ("tenant", "body", "status"),
    [("acme", b'{"requests": []}', 401), (PLATFORM, b'{"requests": 3}', 400), (PLATFORM, b"nonsense", 400)],
)
async def test_who_may_not_ask_or_asks_nonsense_is_refused(
    tenant: TenantId, body: bytes, status: int, clock: ManualClock
) -> None:
    """A tenant's ticket opens nothing here, and a damaged question is no crash."""
    gate = Gate(Engine([], b"application/json"), CONFIG, clock)
    head, _ = await ask(gate, "/penstock/usage", replace(TICKET, tenant=tenant), body)
    assert head["status"] == status


async def test_the_door_sees_whole_answers_grow(clock: ManualClock) -> None:
    """An answer in one piece tells the queue of its first token and of each lot, though its client sees nothing yet."""
    seen: list[tuple[int, int]] = []
    gate: Gate

    async def engine(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        meter = current.get()
        assert meter is not None
        meter.prompt(12)
        meter.enter()
        clock.advance(0.5)
        for _ in range(40):
            meter.made(1)
            entry = next(iter(gate.queue._entries.values()))
            seen.append((entry.prompt_left, entry.output_tokens))
        meter.leave()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    gate = Gate(engine, CONFIG, clock)
    await ask(gate, "/v1/completions")
    assert (seen[0], seen[-1]) == ((0, 1), (0, 33))


async def test_a_list_has_a_share_and_is_charged_for_what_came_in(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list's first prompts say nothing of the others: its charge stands until its end, and its share ends with it."""
    charges: list[float] = []
    meters: list[Meter] = []
    gate: Gate

    async def engine(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        meter = current.get()
        assert meter is not None
        assert meter.share is not None
        meters.append(meter)
        work = next(iter(gate.queue._entries.values())).work
        assert (work.sequences, work.cost) == (2, 64 * 10)
        for _ in range(2):
            meter.prompt(10)
            meter.enter()
            meter.made(0)
            charges.append(next(iter(gate.queue._entries.values())).work.cost)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    gate = Gate(engine, replace(CONFIG, max_num_seqs=16), clock)
    asked = replace(TICKET, prompts=64, sequences=64, prompt_tokens=64 * 10, expected_output_tokens=0)
    corrected: list[float] = []
    correct = gate.queue.fair.correct

    def noting(work: Work, delta_cost: float) -> None:
        corrected.append(delta_cost)
        correct(work, delta_cost)

    monkeypatch.setattr(gate.queue.fair, "correct", noting)
    await ask(gate, "/v1/embeddings", asked)
    assert charges == [640, 640]
    assert corrected == [-620]
    with pytest.raises(asyncio.CancelledError):
        await meters[0].share.take(1)  # type: ignore[union-attr]


@pytest.mark.parametrize("changes", [{}, {"tenant": PLATFORM, "prompts": 64, "sequences": 64}])
async def test_one_prompt_and_the_platform_have_no_share(changes: dict[str, Any], clock: ManualClock) -> None:
    """What books all that it asks for, or comes from the platform itself, waits for nothing behind the queue."""
    shares: list[object] = []

    async def engine(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        meter = current.get()
        assert meter is not None
        shares.append(meter.share)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    await ask(Gate(engine, CONFIG, clock), "/v1/completions", replace(TICKET, **changes))
    assert shares == [None]


BATCH = Work(
    request=RequestId("b"),
    tenant=TenantId("b"),
    standing=Standing.BATCH,
    weight=1.0,
    prompt_tokens=1,
    expected_output_tokens=9,
    sequences=8,
)


class Ran:
    """Stands for the time in which this process ran."""

    at = 0.0

    def seconds(self) -> float:
        return self.at


class Stepping:
    """Makes a token at each of some seconds."""

    def __init__(self, *ends: float) -> None:
        self.ends = ends

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        meter = current.get()
        assert meter is not None
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for end in self.ends:
            meter.shared(2, 0.01, end)
            meter.shared(2, 0.01, end)
            meter.made(1)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def beside_batch(clock: ManualClock, engine: Stepping, ticket: Ticket) -> Gate:
    gate = Gate(engine, replace(CONFIG, max_num_seqs=16), clock)
    gate.queue.arrive(BATCH, clock.monotonic(), lambda: None, lambda *_: None)
    await ask(gate, "/v1/chat/completions", ticket)
    return gate


PROMISED = replace(TICKET, promise=TimedPromise(first_s=1.0, each_s=0.1, late_ratio=0.05))


@pytest.mark.parametrize(
    ("ticket", "is_heard"),
    [(PROMISED, True), (replace(PROMISED, standing=Standing.OVER_QUOTA), False), (TICKET, False)],
)
async def test_late_steps_of_promised_requests_bound_batch_work(
    clock: ManualClock, ticket: Ticket, *, is_heard: bool
) -> None:
    """The engine's own seconds count, once a step; not those of requests over their quota, or without a promise."""
    gate = await beside_batch(clock, Stepping(1.0, 1.05, 1.25, 1.45), ticket)
    assert (gate.queue.yielding.each.slots < 8) == is_heard


async def test_steps_in_time_bound_nothing(clock: ManualClock) -> None:
    """The time until the first token is no step."""
    gate = await beside_batch(clock, Stepping(9.0, 9.05, 9.1), PROMISED)
    assert gate.queue.yielding.slots(clock.monotonic()) is None


async def test_the_page_of_metrics_shows_the_bounds(clock: ManualClock) -> None:
    """By what bounds them; all of the engine where nothing does."""
    gate = await beside_batch(clock, Stepping(1.0, 1.05, 1.25, 1.45), PROMISED)

    def shown(reason: str) -> float | None:
        labels = {"version": "m@1", "reason": reason}
        return gate.tally.metrics.registry.get_sample_value(names.DOOR_BATCH_SLOTS.name, labels)

    assert shown("itl") == pytest.approx(gate.queue.yielding.each.slots)
    assert (shown("ttft"), shown("autoscaler")) == (16, 16)
    gate.queue.yielding.told = 3
    assert shown("autoscaler") == 3


class Lagging:
    """Makes its first token after five seconds of the machine's clock, of which this process ran in some."""

    def __init__(self, clock: ManualClock, ran: Ran, ran_s: float) -> None:
        self.clock, self.ran, self.ran_s = clock, ran, ran_s

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        meter = current.get()
        assert meter is not None
        await send({"type": "http.response.start", "status": 200, "headers": []})
        self.clock.advance(5.0)
        self.ran.at += self.ran_s
        meter.made(1)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


@pytest.mark.parametrize(("ran_s", "is_late"), [(5.0, True), (0.2, False)])
async def test_own_lag_is_no_evidence_against_batch_work(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch, ran_s: float, *, is_late: bool
) -> None:
    """A first token counts as late by the seconds in which this process ran."""
    ran = Ran()
    for module in (corridor, in_flight):
        monkeypatch.setattr(module, "awake_time", lambda: ran)
    gate = Gate(Lagging(clock, ran, ran_s), replace(CONFIG, max_num_seqs=16), clock)
    gate.queue.arrive(BATCH, clock.monotonic(), lambda: None, lambda *_: None)
    gate.queue.stepped(NO_PROMISE, 0.01, clock.monotonic() - 1)
    await ask(gate, "/v1/chat/completions", PROMISED)
    assert (gate.queue.yielding.first.slots < 16) == is_late
