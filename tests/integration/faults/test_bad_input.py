"""Bad requests over the live gateway: each ends in its line of the published table, and none reaches an engine."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

import pytest

from penstock.domain.tenancy.keys import KEY_CHARS
from tests.support.clients.sockets import Told, Wire
from tests.support.failures.table import CANARY, FaultTable
from tests.support.platforms.readings import Fleet

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

CHAT = "/v1/chat/completions"
TURN = {"role": "user", "content": f"{CANARY} Hi"}
FIELDS = {"message", "type", "code", "param", "request_id", "retryable", "retry_after"}


def chat(**fields: object) -> dict[str, object]:
    return {"model": "smollm2", "messages": [TURN], "max_tokens": 4, **fields}


def raw(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    body: object = b""
    status: int = 400
    code: str = "invalid_field"
    param: str | None = None
    path: str = CHAT
    headers: Mapping[str, str] = field(default_factory=dict)


BODIES = [
    Case(name="no body", code="malformed_body"),
    Case(name="cut JSON", body=raw(f'{{"model":"smollm2","messages":[{{"content":"{CANARY}'), code="malformed_body"),
    Case(name="no object", body=[TURN], code="malformed_body"),
    Case(name="a number", body=b"42", code="malformed_body"),
    Case(name="two objects", body=json.dumps(chat()).encode() * 2, code="malformed_body"),
    Case(name="NaN", body=raw(json.dumps(chat()).replace("4}", "NaN}")), code="malformed_body"),
    Case(name="invalid UTF-8", body=raw(CANARY) + b'{"model":"\xff\xfe"}', code="malformed_body"),
    Case(name="UTF-8 cut in a string", body=b'{"model":"smollm2","messages":"\xe2\x82"}', code="malformed_body"),
    Case(name="half a surrogate", body=b'{"model":"smollm2","prompt":"\\ud800"}', code="malformed_body"),
    Case(name="100 levels", body=raw('{"model":"smollm2","x":' + "[" * 100 + "]" * 100 + "}"), code="malformed_body"),
    Case(name="100,000 levels", body=b"[" * 100_000, code="malformed_body"),
    Case(name="gzip", body=chat(), headers={"content-encoding": "gzip"}, status=415, code="compressed_body"),
]
VALUES = [
    Case(name="no model", body={"messages": [TURN]}, param="model"),
    Case(name="model of a wrong type", body=chat(model=7), param="model"),
    Case(name="endless model", body=chat(model="m" * 10_000), param="model"),
    Case(name="no messages", body={"model": "smollm2"}, param="messages"),
    Case(name="messages as text", body=chat(messages=CANARY), param="messages"),
    Case(name="empty messages", body=chat(messages=[]), param="messages"),
    Case(name="a message as text", body=chat(messages=[CANARY]), param="messages[0]"),
    Case(name="a message without role", body=chat(messages=[{"content": CANARY}]), param="messages[0].role"),
    Case(name="content as number", body=chat(messages=[{"role": "user", "content": 3}]), param="messages[0].content"),
    Case(
        name="a part of a list's type",
        body=chat(messages=[{"role": "user", "content": [{"type": [1], "text": CANARY}]}]),
        param="messages[0].content[0].type",
    ),
    Case(
        name="an input of an object's type",
        body={"model": "minilm", "input": {"type": {}, "text": CANARY}},
        path="/v1/embeddings",
        param="input",
    ),
    Case(
        name="a tool's result of a list's type",
        body={
            "model": "smollm2",
            "max_tokens": 4,
            "messages": [{"role": "user", "content": [{"type": "tool_result", "content": {"type": [1]}}]}],
        },
        path="/v1/messages",
        param="messages[0].content[0].content",
    ),
    Case(name="structured outputs as list", body=chat(structured_outputs=[0.5]), param="structured_outputs"),
    Case(name="structured outputs as text", body=chat(structured_outputs="json"), param="structured_outputs"),
    Case(name="response format as list", body=chat(response_format=[1]), param="response_format"),
    Case(name="temperature as text", body=chat(temperature="hot"), param="temperature"),
    Case(name="n of zero", body=chat(n=0), param="n"),
    Case(name="n of a million", body=chat(n=1_000_000), param="n"),
    Case(name="n as bool", body=chat(n=True), param="n"),
    Case(name="negative max_tokens", body=chat(max_tokens=-1), param="max_tokens"),
    Case(name="max_tokens of zero", body=chat(max_tokens=0), param="max_tokens"),
    Case(name="max_tokens as text", body=chat(max_tokens="many"), param="max_tokens"),
    Case(name="max_tokens of 2^70", body=chat(max_tokens=1 << 70), param="max_tokens"),
    Case(name="max_tokens beyond the context", body=chat(max_tokens=100_000), code="context_length_exceeded"),
    Case(name="stream as text", body=chat(stream="yes"), param="stream"),
    Case(name="stream_options alone", body=chat(stream_options={"include_usage": True}), param="stream_options"),
    Case(name="prompt_embeds", body=chat(prompt_embeds="AAAA"), code="unsupported_field", param="prompt_embeds"),
    Case(name="own chat template", body=chat(chat_template="{{ 1 }}"), code="unsupported_field", param="chat_template"),
    Case(name="empty prompt list", body={"model": "smollm2", "prompt": []}, path="/v1/completions", param="prompt"),
    Case(name="negative token id", body={"model": "smollm2", "prompt": [-1]}, path="/v1/completions", param="prompt"),
    Case(
        name="input of mixed types", body={"model": "minilm", "input": ["a", 1]}, path="/v1/embeddings", param="input"
    ),
    Case(name="temperature of a million", body=chat(temperature=1e6), param="temperature"),
    Case(name="top_p of seven", body=chat(top_p=7), param="top_p"),
    Case(name="messages API without max_tokens", body={"model": "smollm2", "messages": [TURN]}, path="/v1/messages"),
    Case(
        name="stored response",
        body={"model": "smollm2", "input": "x", "background": True},
        path="/v1/responses",
        code="unsupported_field",
    ),
]
ENGINE = [  # values that only the engine can judge: it says 400, and so do we
    Case(name="unknown role", body=chat(messages=[{"role": "ghost", "content": [{"type": "x"}]}]), code=""),
    Case(name="a tool without a name", body=chat(tools=[{"type": "function"}]), code=""),
    Case(name="a schema that is none", body=chat(response_format={"type": "json_schema"}), code=""),
    Case(
        name="token ids beyond the vocabulary",
        body={"model": "smollm2", "prompt": [1 << 30]},
        path="/v1/completions",
        code="",
    ),
    *(
        Case(name=f"a {kind} that no text completes", body=chat(structured_outputs={kind: text}), code="")
        for kind, text in (("grammar", "root ::= root"), ("grammar", "start: start"), ("regex", r"[^\s\S]"))
    ),
]
PLACES = [
    Case(name="unknown model", body=chat(model="gpt-9"), status=404, code="model_not_found"),
    Case(name="unknown version", body=chat(model="smollm2@000000000000"), status=404, code="model_not_found"),
    Case(name="path as model", body=chat(model="../../etc/passwd"), status=404, code="model_not_found"),
    Case(name="unknown path", path="/v1/nothing", status=404, code="route_not_found"),
    Case(name="the gate's own path", path="/penstock/drain", status=404, code="route_not_found"),
    Case(name="chat with an encoder", body=chat(model="minilm"), code="unsupported_by_model"),
    Case(
        name="embedding by a chat model",
        body={"model": "smollm2", "input": CANARY},
        path="/v1/embeddings",
        code="unsupported_by_model",
    ),
    Case(name="bad deadline", body=chat(), headers={"x-penstock-deadline-ms": "soon"}, param="x-penstock-deadline-ms"),
    Case(name="no time at all", body=chat(), headers={"x-penstock-deadline-ms": "0"}, param="x-penstock-deadline-ms"),
    Case(name="a long session", body=chat(), headers={"x-penstock-session": "s" * 257}, param="x-penstock-session"),
    Case(
        name="a session with a separator",
        body=chat(),
        headers={"x-penstock-session": "s\ta"},
        param="x-penstock-session",
    ),
    Case(name="bad idempotency key", body=chat(), headers={"idempotency-key": "a b"}, code="invalid_request"),
]
HEADERS = [
    Case(
        name="40 KB of one header", body=chat(), headers={"x-long": "x" * 40_000}, status=431, code="headers_too_large"
    ),
    Case(
        name="200 headers",
        body=chat(),
        headers={f"x-{i}": "1" for i in range(200)},
        status=431,
        code="headers_too_large",
    ),
]
WELL_FORMED = "psk_" + "A" * (KEY_CHARS - 4)
STRANGERS = [
    Case(name="no key", headers={"authorization": ""}, status=401, code="invalid_api_key"),
    Case(name="wrong scheme", headers={"authorization": "Basic cGVuOnN0b2Nr"}, status=401, code="invalid_api_key"),
    Case(name="forged key", headers={"authorization": f"Bearer {WELL_FORMED}"}, status=401, code="invalid_api_key"),
    Case(name="endless key", headers={"authorization": f"Bearer psk_{'x' * 9000}"}, status=401, code="invalid_api_key"),
    Case(name="key of odd bytes", headers={"authorization": "Bearer \xff\xfe"}, status=401, code="invalid_api_key"),
]


def ask(fleet: Fleet, case: Case, key: str) -> Told:
    with Wire(fleet.platform.url) as wire:
        named = {"authorization": f"Bearer {key}", **case.headers}
        wire.post(case.path, case.body, headers=named)
        return wire.whole()


def check(told: Told, case: Case) -> None:
    """Check status, code, shape and request id; and that the caller's text is not thrown back at it."""
    assert told.status == case.status, told.body
    error = told.json()["error"]
    assert set(error) >= FIELDS
    assert error["request_id"] == told.headers["x-request-id"]
    assert not case.code or error["code"] == case.code, error
    assert case.param is None or error["param"] == case.param, error
    assert error["retryable"] is False
    assert told.headers["content-type"] == "application/json"
    assert CANARY.encode() not in told.body


def named(cases: list[Case]) -> list[object]:
    return [pytest.param(case, id=case.name.replace(" ", "-")) for case in cases]


@pytest.mark.parametrize("case", named([*BODIES, *VALUES, *PLACES, *HEADERS]))
def test_a_bad_request_is_refused_before_the_engine(solo: Fleet, case: Case) -> None:
    """A request that can't be served gets its status, code and request id, and no engine hears of it."""
    before = work(solo)
    check(ask(solo, case, solo.platform.demo_key), case)
    assert work(solo) == before


def work(fleet: Fleet) -> float:
    """Return how many requests the engines have answered."""
    return sum(gate.answered() for gate in fleet.gates())


@pytest.mark.parametrize("case", named(ENGINE))
def test_what_the_engine_refuses_is_the_callers_error(solo: Fleet, case: Case) -> None:
    """A value that only the engine can judge comes back as a bad request, never as a fault of ours."""
    check(ask(solo, case, solo.platform.demo_key), case)


@pytest.mark.parametrize("case", named(STRANGERS))
def test_a_stranger_is_refused_before_the_body_is_read(solo: Fleet, case: Case) -> None:
    """Without a valid key even a malformed body is answered with 401."""
    told = ask(solo, Case(name=case.name, body=b"{not json", headers=case.headers), "")
    check(told, case)
    assert told.headers["www-authenticate"] == "Bearer"


def test_a_wrong_method_is_told(solo: Fleet) -> None:
    """GET on an inference path is 405, not 404."""
    with Wire(solo.platform.url) as wire:
        wire.send(wire.head("GET", CHAT, {"authorization": f"Bearer {solo.platform.demo_key}"}))
        told = wire.whole()
    check(told, Case(name="GET", status=405, code="method_not_allowed"))


def test_a_large_body_is_refused_early(solo: Fleet, faults: FaultTable) -> None:
    """Of a 20 MB body nothing but the head has to be sent to learn that it is too large."""
    with Wire(solo.platform.url, timeout_s=5) as wire:
        wire.send(
            wire.head("POST", CHAT, {"authorization": f"Bearer {solo.platform.demo_key}", "content-length": "20000000"})
        )
        told = wire.whole()
    check(told, Case(name="large", status=413, code="body_too_large"))
    faults.add("20 MB body", "413 `body_too_large` from the head alone")


def test_a_large_body_of_unknown_length_is_refused(solo: Fleet) -> None:
    """A chunked body is counted as it comes and refused once it is too large."""
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    with Wire(solo.platform.url, timeout_s=10) as wire:
        key = {"authorization": f"Bearer {solo.platform.demo_key}"}
        wire.send(wire.head("POST", CHAT, {**key, "transfer-encoding": "chunked"}))
        for _ in range(130):  # a little more than 8 MiB
            wire.send(chunk)
        told = wire.whole()
    check(told, Case(name="large", status=413, code="body_too_large"))


def test_a_prompt_of_100k_tokens_is_refused_quickly(solo: Fleet, faults: FaultTable) -> None:
    """A prompt far beyond the context is refused within seconds and without any work for the engine."""
    turn = {"role": "user", "content": f"{CANARY} " + "word " * 100_000}
    case = Case(name="long", body=chat(messages=[turn]), code="context_length_exceeded")
    before = work(solo)
    began = time.monotonic()
    check(ask(solo, case, solo.platform.demo_key), case)
    took_s = time.monotonic() - began
    assert took_s < 3.0
    assert work(solo) == before
    with solo.platform.http() as http:
        assert http.post(CHAT, json=chat()).status_code == HTTPStatus.OK
    assert work(solo) == before + 1, "the count that shows that nothing was done can move"
    faults.add("prompt of 100,000 tokens", "400 `context_length_exceeded`, nothing for the engine", took_s)
