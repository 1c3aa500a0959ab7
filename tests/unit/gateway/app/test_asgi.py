"""The same application over a plain ASGI server: the slower reply keeps the same promises."""

import asyncio
import json

import httpx
import pytest

from penstock.domain.errors import NoCapacity
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.outcome import Stage
from penstock.gateway.calls.call import Call
from penstock.gateway.calls.relay import Reply
from penstock.intake.limits import Limits
from penstock.intake.plain import PlainReply
from penstock.intake.types import Message
from tests.support.gateways.toy import SECRET, Serve, Toy, edge, hello
from tests.support.samples.calls import VERSION

BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
AUTH = {"authorization": f"Bearer {SECRET}"}


def client(
    serve: Serve = hello, limits: Limits | None = None, version: VersionEntry | None = None
) -> tuple[httpx.AsyncClient, Toy]:
    toy = Toy(serve, version)
    transport = httpx.ASGITransport(app=edge(toy, limits or Limits()))
    return httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=AUTH), toy


async def post(
    serve: Serve = hello,
    path: str = "/v1/chat/completions",
    version: VersionEntry | None = None,
    **options: object,
) -> tuple[httpx.Response, Toy]:
    http, toy = client(serve, version=version)
    async with http:
        return await http.post(path, **{"json": BODY, **options}), toy  # type: ignore[arg-type]


async def test_a_call_carries_what_head_and_body_said() -> None:
    """Identity comes from the key, everything else from the request."""
    headers = {"x-request-id": "mine", "x-penstock-deadline-ms": "1500", "idempotency-key": "k1"}
    answer, toy = await post(headers={**AUTH, **headers, "traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01"})
    call = toy.seen.calls[0]
    assert answer.json() == {"hello": "world"}
    assert (call.principal.tenant, call.request.model, call.request.deadline_s) == ("acme", "m", 1.5)
    assert call.request.idempotency_key == "k1"
    assert call.request.traceparent.startswith("00-aaaa")
    assert call.request.id.startswith("mine-")
    assert answer.headers["x-request-id"] == call.request.id
    assert set(call.timings.seconds) == {Stage.AUTH, Stage.EDGE, Stage.UPLOAD}


async def test_a_session_is_carried_and_said_once() -> None:
    """It comes into the corridor as it was sent, an empty one as none; two of them are refused."""
    for given in ("shop 17", ""):
        _, toy = await post(headers={**AUTH, "x-penstock-session": given})
        assert toy.seen.calls[0].request.session == given
    twice = [*AUTH.items(), ("x-penstock-session", "a"), ("x-penstock-session", "b")]
    answer, toy = await post(headers=twice)
    assert (answer.status_code, toy.seen.calls) == (400, [])
    assert "x-penstock-session was given more than once" in answer.json()["error"]["message"]


async def test_claims_of_identity_are_not_heard() -> None:
    """Headers that name a tenant, a priority or a fairness id change nothing."""
    claims = {
        "x-tenant-id": "rich",
        "x-penstock-tenant": "rich",
        "x-penstock-ticket": "forged",
        "x-gateway-inference-fairness-id": "rich",
        "x-forwarded-user": "root",
    }
    body = {**BODY, "priority": -5, "cache_salt": "other", "user": "rich"}
    _, toy = await post(headers={**AUTH, **claims}, json=body)
    call = toy.seen.calls[0]
    assert (call.principal.tenant, call.request.body) == ("acme", {**BODY, "user": "rich"})


@pytest.mark.parametrize("headers", [{"authorization": "Bearer psk_x"}, {"authorization": ""}, {"x-api-key": "psk_x"}])
async def test_a_stranger_never_reaches_the_corridor(headers: dict[str, str]) -> None:
    """Without a valid key the answer is 401, whatever the body is."""
    answer, toy = await post(headers={"authorization": "", **headers}, content=b"{broken", json=None)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
    assert toy.seen.calls == []
    assert toy.seen.refused == ["invalid_api_key"]


async def test_the_messages_sdk_s_header_is_a_credential_too() -> None:
    """x-api-key alone identifies the caller."""
    body = {**BODY, "max_tokens": 5}
    answer, _ = await post(path="/v1/messages", headers={"authorization": "", "x-api-key": SECRET}, json=body)
    assert answer.status_code == 401  # an empty Authorization header is a credential that is not valid
    http, _ = client()
    del http.headers["authorization"]
    async with http:
        assert (await http.post("/v1/messages", headers={"x-api-key": SECRET}, json=body)).status_code == 200


async def test_refusals_tell_how_far_the_request_came() -> None:
    """Status, code, time to wait, request id, resolved version and stages are all there."""

    async def full(call: Call, reply: Reply) -> None:
        raise NoCapacity(retry_after_s=3.2)

    answer, toy = await post(full, version=VERSION)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "4")
    assert answer.headers["x-penstock-version"] == VERSION.id
    assert answer.headers["x-should-retry"] == "true"
    assert "auth;dur=" in answer.headers["server-timing"]
    assert answer.json()["error"]["request_id"] == answer.headers["x-request-id"]
    assert toy.seen.refused == ["no_capacity"]


@pytest.mark.parametrize(
    ("path", "shape"), [("/v1/chat/completions", {"error"}), ("/v1/messages", {"type", "error", "request_id"})]
)
async def test_each_api_gets_errors_in_its_own_shape(path: str, shape: set[str]) -> None:
    """Clients of both families find the error where they look."""
    answer, _ = await post(path=path, content=b"[]", json=None)
    assert answer.status_code == 400
    assert set(answer.json()) == shape


@pytest.mark.parametrize(
    ("headers", "content", "status", "code"),
    [
        ({}, b"x" * 2000, 413, "body_too_large"),
        ({"content-length": "2000"}, b"", 413, "body_too_large"),
        ({"content-encoding": "gzip"}, b"{}", 415, "compressed_body"),
        ({"x-penstock-deadline-ms": "soon"}, json.dumps(BODY).encode(), 400, "invalid_field"),
        ({"idempotency-key": "a b"}, json.dumps(BODY).encode(), 400, "invalid_request"),
        ({"x-penstock-session": "a\x1fb"}, b"{", 400, "invalid_field"),
        ({"x-penstock-session": "s" * 257}, b"{", 400, "invalid_field"),
    ],
    ids=range(7),
)
async def test_what_can_t_be_read_is_refused(headers: dict[str, str], content: bytes, status: int, code: str) -> None:
    """Size, encoding and headers have their bounds on every server."""
    http, toy = client(limits=Limits(body_bytes=1000))
    async with http:
        answer = await http.post("/v1/chat/completions", headers=headers, content=content)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert toy.seen.calls == []


async def test_a_stream_comes_through_in_order() -> None:
    """Everything that was written arrives, and the answer ends."""

    async def stream(call: Call, reply: Reply) -> None:
        reply.start(200, [(b"content-type", b"text/event-stream")])
        for i in range(100):
            reply.write(b"data: %d\n\n" % i)
        reply.finish()

    answer, _ = await post(stream)
    assert answer.text == "".join(f"data: {i}\n\n" for i in range(100))


async def test_a_fault_is_a_500_in_our_shape() -> None:
    """A bug is told by its kind, and the client learns nothing of the inside."""

    async def bug(call: Call, reply: Reply) -> None:
        raise KeyError("prompt text")

    answer, toy = await post(bug)
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal_error")
    assert "prompt" not in answer.text
    assert toy.seen.crashed == ["KeyError"]


class Server:
    """A plain ASGI server that takes what is sent only as fast as the test allows."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.may_send = asyncio.Semaphore(0)
        self.sent: list[Message] = []

    async def receive(self) -> Message:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        await self.may_send.acquire()
        self.sent.append(message)


async def test_a_slow_server_pauses_the_writer_and_lets_it_go_on() -> None:
    """The bytes that wait are bounded by telling the writer."""
    server, told = Server(), list[str]()
    reply = PlainReply(server.receive, server.send, 1000)
    reply.watch(on_gone=lambda: None, on_pause=lambda: told.append("pause"), on_resume=lambda: told.append("resume"))
    reply.start(200, [])
    for _ in range(5):
        reply.write(b"x" * 300)
    await asyncio.sleep(0)
    assert told == ["pause"]
    for _ in range(6):
        server.may_send.release()
    reply.finish()
    server.may_send.release()
    await reply.end()
    assert told == ["pause", "resume"]
    assert b"".join(m.get("body", b"") for m in server.sent) == b"x" * 1500


async def test_a_client_that_leaves_a_plain_server_is_noticed() -> None:
    """The disconnect message reaches the watcher once, and writing stops."""
    server, told = Server(), list[str]()
    reply = PlainReply(server.receive, server.send, 1000)
    reply.watch(on_gone=lambda: told.append("gone"), on_pause=lambda: None, on_resume=lambda: None)
    reply.start(200, [])
    server.left.set()
    await asyncio.sleep(0.01)
    assert (told, reply.gone) == (["gone"], True)
    reply.write(b"x")
    await reply.end()
    assert server.sent == []
