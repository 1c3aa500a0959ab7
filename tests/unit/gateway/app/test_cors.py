"""Pages of other origins, over the real listener: who may ask, who may read, and never with credentials."""

import json

import pytest

from penstock.domain.errors import NoCapacity
from penstock.gateway.app.cors import Origins
from penstock.gateway.calls.call import Call
from penstock.gateway.calls.relay import Reply
from penstock.settings import forms
from tests.support.gateways import toy
from tests.support.gateways.server import Client, on_uvloop, stream
from tests.support.gateways.toy import Running, running

HERS, OTHERS = "https://her.example:8443", "https://other.example"
NAMED, ANY, CLOSED = Origins(frozenset({HERS})), Origins(frozenset({"*"})), Origins()
ALLOW = "access-control-allow-origin"
PATHS = (
    "/v1/chat/completions",
    "/v1/messages",
    "/v1/models",
    "/v2/models/m/infer",
    "/v1/responses/input_tokens",
    "/no",
)


async def refusing(call: Call, reply: Reply) -> None:
    raise NoCapacity(retry_after_s=1.0)


async def ask(
    gateway: Running, method: str, path: str, *headers: str, body: bytes = b""
) -> tuple[int, dict[str, str], bytes]:
    client = await Client.to(gateway)
    lines = (f"{method} {path} HTTP/1.1", "host: x", f"content-length: {len(body)}", *headers)
    client.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    try:
        if method == "OPTIONS":
            status, told = await client.head()
            return status, told, await client.reader.readexactly(int(told.get("content-length", 0)))
        return await client.response()
    finally:
        await client.close()


async def preflight(gateway: Running, path: str, origin: str) -> tuple[int, dict[str, str], bytes]:
    wish = ("access-control-request-method: POST", "access-control-request-headers: authorization,x-stainless-os")
    return await ask(gateway, "OPTIONS", path, f"origin: {origin}", *wish)


@on_uvloop
async def test_a_preflight_of_an_allowed_origin_is_answered_on_each_path() -> None:
    """A browser learns that it may post, with its key in a header, and for how long that holds."""
    async with running(origins=NAMED) as gateway:
        for path in PATHS:
            status, told, body = await preflight(gateway, path, HERS)
            assert (status, body) == (204, b"")
            assert (told[ALLOW], told["vary"]) == (HERS, "origin")
            assert "authorization" in told["access-control-allow-headers"]
            assert "POST" in told["access-control-allow-methods"]
            assert int(told["access-control-max-age"]) > 0


@pytest.mark.parametrize(("origins", "origin"), [(CLOSED, HERS), (NAMED, OTHERS), (NAMED, "null"), (NAMED, HERS + "0")])
def test_another_origin_hears_what_to_do(origins: Origins, origin: str) -> None:
    """OPTIONS says so in the API's error shape, with the setting's name and without the caller's words."""

    @on_uvloop
    async def asked() -> None:
        async with running(origins=origins) as gateway:
            status, told, body = await preflight(gateway, "/v1/chat/completions", origin)
            assert status == 403
            error = json.loads(body)["error"]
            assert error["code"] == "origin_not_allowed"
            assert "PENSTOCK_CORS_ORIGINS" in error["message"]
            assert ALLOW not in told
            assert told["x-request-id"]

    asked()


@on_uvloop
async def test_each_answer_may_be_read_by_an_allowed_page() -> None:
    """Streams, refusals of the pipeline, of the key and of the path, and questions, all of them once."""
    key = f"authorization: Bearer {toy.SECRET}"
    for serve, path, headers, status in (
        (stream, "/v1/chat/completions", (key,), 200),
        (refusing, "/v1/chat/completions", (key,), 503),
        (stream, "/v1/chat/completions", (), 401),
        (stream, "/no", (key,), 404),
    ):
        async with running(serve, origins=NAMED) as gateway:
            answer = await ask(gateway, "POST", path, f"origin: {HERS}", *headers, body=toy.REQUEST)
            assert (answer[0], answer[1][ALLOW], answer[1]["access-control-expose-headers"]) == (status, HERS, "*")
            assert answer[1]["x-request-id"]
            other = await ask(gateway, "POST", path, f"origin: {OTHERS}", *headers, body=toy.REQUEST)
            assert (other[0], other[1].get(ALLOW), other[1]["vary"]) == (status, None, "origin")


@on_uvloop
async def test_no_answer_allows_credentials() -> None:
    """With any origin allowed the answer is the star, which browsers give to requests without cookies alone."""
    async with running(origins=ANY) as gateway:
        for answer in (
            await preflight(gateway, "/v1/models", OTHERS),
            await ask(gateway, "GET", "/v1/models", f"origin: {OTHERS}"),
        ):
            assert answer[1][ALLOW] == "*"
            assert "access-control-allow-credentials" not in answer[1]


@on_uvloop
async def test_without_the_setting_no_answer_speaks_of_origins() -> None:
    """A plain OPTIONS is a method that a path does not have, as before."""
    async with running() as gateway:
        status, told, _ = await ask(gateway, "OPTIONS", "/v1/chat/completions", f"origin: {HERS}")
        assert (status, told["allow"]) == (405, "POST")
        answer = await ask(gateway, "GET", "/health", f"origin: {HERS}")
        assert not [name for name in answer[1] if name.startswith("access-control") or name == "vary"]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("", ""),
        ("*", "*"),
        (" https://A.example , http://localhost:3000", "https://a.example,http://localhost:3000"),
        ("https://[::1]:8080", "https://[::1]:8080"),
    ],
)
def test_origins_are_written_as_browsers_send_them(given: str, kept: str) -> None:
    """Lower case, without blanks."""
    assert forms.origins(given) == kept


@pytest.mark.parametrize(
    "given", ["a.example", "https://a.example/", "*,https://a.example", "https://*.example", "null"]
)
def test_no_origin_is_a_fault_at_the_start(given: str) -> None:
    """A path, a pattern or a bare host would allow nothing, and say nothing."""
    with pytest.raises(ValueError, match="origins"):
        forms.origins(given)
