"""What a client claims about itself has no effect: identity, class and cache come from the credential alone."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

import httpx
import pytest

from penstock.telemetry import names
from tests.support.clients.sockets import Wire
from tests.support.failures.table import CANARY, FaultTable
from tests.support.patience import until
from tests.support.platforms.local import Platform
from tests.support.platforms.readings import Fleet
from tests.support.platforms.tenants import key_id, key_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

CHAT = "/v1/chat/completions"
PREAMBLE_TOKENS = 64
"""What a tenant's own earlier requests may have left of the chat template's preamble."""
PROBES_TOKENS = 64
"""What the worker's own probes may find meanwhile."""
LONG_TOKENS = 100
PREFIX_CACHE = ("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total")


def chat(text: str, **fields: object) -> dict[str, object]:
    turn = {"role": "user", "content": f"{CANARY} {text}"}
    return {"model": "smollm2", "messages": [turn], "max_tokens": 2, "temperature": 0, **fields}


@pytest.fixture(scope="module")
def other_key(platform: Platform) -> str:
    """Return a key of a tenant besides the demo tenant."""
    return key_of(platform, "rival")


@dataclass(frozen=True, kw_only=True)
class Found:
    """One request's hits in the prefix cache: told to its caller, and counted by the engine (hits, queries)."""

    told: int
    hits: float
    queries: float


def asked(fleet: Fleet, key: str, text: str, **fields: object) -> Found:
    gate = next(gate for gate in fleet.gates() if gate.serves("smollm2"))
    before = [gate.engine(name) for name in PREFIX_CACHE]
    with fleet.platform.http(key) as http:
        answer = http.post(CHAT, json=chat(text, **fields))
    assert answer.status_code == 200, answer.text
    hits, queries = (gate.engine(name) - old for name, old in zip(PREFIX_CACHE, before, strict=True))
    details = answer.json()["usage"].get("prompt_tokens_details") or {}
    return Found(told=int(details.get("cached_tokens") or 0), hits=hits, queries=queries)


def test_prefix_caches_of_tenants_stay_apart(solo: Fleet, other_key: str, faults: FaultTable) -> None:
    """By the engine's own counters a tenant finds its own prefix whatever ``cache_salt`` it sends, and no other's."""
    own, text = solo.platform.demo_key, f"{uuid.uuid4()} " + "the same long beginning " * 40
    first = asked(solo, own, text, cache_salt="shared")
    again = [asked(solo, own, text, cache_salt=salt) for salt in ("shared", "another")]
    strange = asked(solo, other_key, text, cache_salt="shared")
    back = asked(solo, other_key, text)
    for miss in (first, strange):
        assert miss.told <= PREAMBLE_TOKENS
        assert miss.hits <= PREAMBLE_TOKENS + PROBES_TOKENS
        assert miss.queries > LONG_TOKENS
    for hit in (*again, back):
        assert hit.told > LONG_TOKENS
        assert hit.hits > LONG_TOKENS
    faults.add(
        "two tenants send one prompt with one `cache_salt`",
        f"the engine's prefix cache: own prefix {again[0].hits:.0f} of {again[0].queries:.0f} tokens, "
        f"the other's {strange.hits:.0f} of {strange.queries:.0f}",
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"cache_salt": 7},
        {"cache_salt": ""},
        {"priority": "first"},
        {"priority": -100},
        {"request_id": {"evil": 1}},
        {"kv_transfer_params": "x"},
        {"vllm_xargs": 1},
    ],
    ids=str,
)
def test_a_smuggled_field_is_dropped(solo: Fleet, fields: Mapping[str, object]) -> None:
    """A field that claims class or cache is dropped: with the wrong type it would be an error if it were passed on."""
    with solo.platform.http() as http:
        answer = http.post(CHAT, json=chat("Hi", **fields))
    assert answer.status_code == 200, answer.text


SMUGGLED = {
    "x-penstock-ticket": "AAAA",
    "x-penstock-tenant": "rival",
    "x-penstock-priority": "interactive",
    "x-tenant-id": "rival",
    "x-forwarded-user": "rival",
    "x-penstock-worker": "w-0",
    "x-penstock-report": '{"load":{}}',
    "x-penstock-refused": "draining",
    "x-gateway-inference-fairness-id": "rival",
    "priority": "u=0",
}


def test_smuggled_headers_change_nobodys_identity(solo: Fleet) -> None:
    """Headers that claim another identity leave the request with the tenant of its key."""
    demo = solo.counted(names.REQUESTS, tenant="demo", outcome="ok")
    rival = solo.counted(names.REQUESTS, tenant="rival")
    with solo.platform.http() as http:
        answer = http.post(CHAT, json=chat("Hi", user="rival"), headers=SMUGGLED)
    assert answer.status_code == 200, answer.text
    assert solo.logged(answer.headers["x-request-id"])["tenant"] == "demo"
    until("the request is counted", lambda: solo.counted(names.REQUESTS, tenant="demo", outcome="ok") == demo + 1)
    assert solo.counted(names.REQUESTS, tenant="rival") == rival


def test_a_callers_request_id_is_made_unique(solo: Fleet) -> None:
    """Two requests with the same ``x-request-id`` keep ids of their own, so neither can end the other."""
    with solo.platform.http() as http:
        ids = [http.post(CHAT, json=chat("Hi"), headers={"x-request-id": "mine"}).headers["x-request-id"] for _ in "ab"]
    assert len(set(ids)) == 2
    assert all(given.startswith("mine-") for given in ids)


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        ("authorization", "authorization", {400, 401}),
        ("content-length", "content-length", {400}),
        ("host", "host", {200, 400}),
    ],
)
def test_duplicate_headers(solo: Fleet, first: str, second: str, status: set[int]) -> None:
    """A deciding header that stands there twice with different values lets no caller in by mistake."""
    body = b'{"model":"smollm2","messages":[{"role":"user","content":"Hi"}],"max_tokens":1}'
    values = {
        "authorization": (f"Bearer {solo.platform.demo_key}", "Bearer psk_nobody"),
        "content-length": (str(len(body)), "3"),
        "host": (solo.platform.url.removeprefix("http://"), "elsewhere"),
    }
    with Wire(solo.platform.url, timeout_s=10) as wire:
        lines = [b"POST /v1/chat/completions HTTP/1.1"]
        needed = {
            "authorization": values["authorization"][0],
            "content-length": str(len(body)),
            "host": values["host"][0],
        }
        lines += [f"{k}: {v}".encode() for k, v in needed.items()]
        lines.append(f"{second}: {values[first][1]}".encode())
        wire.send(b"\r\n".join([*lines, b"", b""]) + body)
        told = wire.whole()
    assert told.status in status, told.body
    assert told.headers["x-request-id"]


def test_two_lengths_of_one_body_are_no_request(solo: Fleet) -> None:
    """Content-Length beside chunked framing, the root of request smuggling, is refused and the connection closed."""
    smuggled = b"0\r\n\r\nGET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n"
    with Wire(solo.platform.url, timeout_s=10) as wire:
        headers = {"transfer-encoding": "chunked", "content-length": str(len(smuggled))}
        wire.send(wire.head("POST", CHAT, {"authorization": f"Bearer {solo.platform.demo_key}", **headers}) + smuggled)
        told = wire.whole()
        assert told.status == 400, told.body
        assert wire.is_cut(within_s=5)


@pytest.mark.parametrize("ticket", ["", "AAAA", "x" * 4000], ids=["none", "forged", "long"])
def test_the_gate_lets_nobody_round_the_edge(solo: Fleet, ticket: str) -> None:
    """A worker's own address answers 401 without the gateway's signature."""
    for gate in solo.gates():
        with Wire(gate.url) as wire:
            wire.post(CHAT, chat("Hi"), headers={"x-penstock-ticket": ticket} if ticket else {})
            told = wire.whole()
        assert told.status == 401
        assert told.headers["x-penstock-refused"] == "ticket"
        with Wire(gate.url) as wire:
            wire.post("/penstock/drain", {})
            assert wire.whole().status == 401


def until_refused(http: httpx.Client) -> None:
    until("the key is refused", lambda: http.get("/v1/models").status_code == 401, within_s=10)


def test_keys_that_ended_let_nobody_in(solo: Fleet, faults: FaultTable) -> None:
    """A revoked key is refused within seconds, and so is one that has expired, each with 401 and its code."""
    platform = solo.platform
    revoked, expiring = key_of(platform, "revoked"), key_of(platform, "expiring")
    platform.act("POST", f"/keys/{key_id(revoked)}/revoke")
    platform.act("POST", f"/keys/{key_id(expiring)}/rotate", {"overlap_s": 1})
    for key in (revoked, expiring):
        with platform.http(key) as http:
            until_refused(http)
            answer = http.post(CHAT, json=chat("Hi"))
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "invalid_api_key"
    faults.add("missing, forged, revoked or expired key", "401 `invalid_api_key` before the body is read")
