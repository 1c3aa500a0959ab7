"""The real server on a real socket: requests, bounds, faults."""

import asyncio
import json
from contextlib import suppress

import pytest

from penstock.gateway.calls.call import Call
from penstock.gateway.calls.relay import Reply
from penstock.intake.limits import Limits
from tests.support.gateways.server import CHUNKED, Client, code, on_uvloop, stream
from tests.support.gateways.toy import REQUEST, head, running


@on_uvloop
async def test_a_connection_serves_one_request_after_another() -> None:
    """Keep-alive works for whole and for streamed answers, each with an id of its own."""
    async with running(stream) as gateway:
        client = await Client.to(gateway)
        ids = set()
        for _ in range(3):
            client.send(head() + REQUEST)
            status, headers, body = await client.response()
            assert (status, body) == (200, b"data: 0\n\ndata: 1\n\ndata: 2\n\ndata: [DONE]\n\n")
            ids.add(headers["x-request-id"])
        assert len(ids) == 3
        await client.close()


@on_uvloop
async def test_pipelined_requests_are_answered_in_order() -> None:
    """Requests sent ahead wait their turn, and nothing of the answers mixes."""

    async def slower_first(call: Call, reply: Reply) -> None:
        await asyncio.sleep(0.05 if call.request.model == "a" else 0)
        text = call.request.model.encode()
        reply.start(200, [(b"content-length", b"1")])
        reply.write(text)
        reply.finish()

    async with running(slower_first) as gateway:
        client = await Client.to(gateway)
        for name in b"abcdefgh":
            body = REQUEST.replace(b'"m"', b'"%c"' % name)
            client.send(head(length=len(body)) + body)
        assert [(await client.response())[2] for _ in range(8)] == [bytes([c]) for c in b"abcdefgh"]
        await client.close()


@on_uvloop
async def test_a_body_may_come_in_chunks_and_in_pieces() -> None:
    """A chunked upload, sent a few bytes at a time, arrives whole."""
    async with running() as gateway:
        client = await Client.to(gateway)
        client.send(head(b"transfer-encoding: chunked", length=-1))
        for i in range(0, len(REQUEST), 7):
            piece = REQUEST[i : i + 7]
            client.send(b"%x\r\n%b\r\n" % (len(piece), piece))
            await asyncio.sleep(0.001)
        client.send(b"0\r\nauthorization: Bearer other\r\n\r\n")
        assert (await client.response())[0] == 200
        assert gateway.toy.seen.calls[0].request.model == "m"
        await client.close()


@on_uvloop
async def test_a_trailer_is_no_header() -> None:
    """What stands behind a body can't change who the caller is, even when everything comes at once."""
    async with running() as gateway:
        client = await Client.to(gateway)
        chunk = b"%x\r\n%b\r\n0\r\n" % (len(REQUEST), REQUEST)
        client.send(head(b"transfer-encoding: chunked", length=-1) + chunk + b"authorization: Bearer other\r\n\r\n")
        assert (await client.response())[0] == 200
        await client.close()


@on_uvloop
async def test_a_client_that_asks_before_sending_is_told_to_go_on() -> None:
    """Expect: 100-continue is answered, but only to a caller that is known."""
    async with running() as gateway:
        client = await Client.to(gateway)
        client.send(head(b"expect: 100-continue"))
        assert (await client.head())[0] == 100
        client.send(REQUEST)
        assert (await client.response())[0] == 200
        client.send(head(b"expect: 100-continue", key="psk_nobody"))
        assert (await client.response())[0] == 401
        await client.close()


@on_uvloop
async def test_a_stranger_is_refused_before_the_body_is_read() -> None:
    """A wrong key costs no upload: the answer comes while the body is still on its way."""
    async with running() as gateway:
        client = await Client.to(gateway)
        client.send(head(key="psk_wrong", length=5_000_000) + b"x" * 1000)
        status, headers, body = await client.response()
        assert (status, code(body), headers["connection"]) == (401, "invalid_api_key", "close")
        assert gateway.toy.seen.calls == []
        await client.close()


@on_uvloop
async def test_a_large_body_is_refused_by_its_length() -> None:
    """Twenty megabytes are refused at the head, and the connection closes without taking them."""
    async with running() as gateway:
        client = await Client.to(gateway)
        client.send(head(length=20_000_000) + b"x" * 100_000)
        status, _, body = await client.response()
        assert (status, code(body)) == (413, "body_too_large")
        sent = 0
        with suppress(ConnectionError):
            while sent < 20_000_000:
                client.send(b"x" * 100_000)
                await client.writer.drain()
                sent += 100_000
                await asyncio.sleep(0.001)
        assert sent < 15_000_000
        await client.close()


@on_uvloop
async def test_a_large_body_without_a_length_is_refused_while_it_comes() -> None:
    """Chunked uploads are counted, so leaving out the length does not help."""
    async with running(limits=Limits(body_bytes=50_000)) as gateway:
        client = await Client.to(gateway)
        client.send(head(b"transfer-encoding: chunked", length=-1))
        for _ in range(40):
            client.send(b"2710\r\n" + b"x" * 10_000 + b"\r\n")
        status, _, body = await client.response()
        assert (status, code(body)) == (413, "body_too_large")
        await client.close()


@pytest.mark.parametrize(
    ("sent", "status", "error"),
    [
        (b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 200 + b"\r\n", 431, "headers_too_large"),
        (b"GET / HTTP/1.1\r\nx: " + b"a" * 40_000 + b"\r\n\r\n", 431, "headers_too_large"),
        (b"GET / HTTP/1.1\r\nx: " + b"a" * 40_000, 431, "headers_too_large"),
        (b"GET /" + b"a" * 40_000, 431, "headers_too_large"),
        (b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\n\r\n", 431, "headers_too_large"),
        (b"\x16\x03\x01\x02\x00", 400, "invalid_request"),
        (b"GET\r\n\r\n", 400, "invalid_request"),
        (b"POST /v1/x HTTP/1.1\r\ncontent-length: -5\r\n\r\n", 400, "invalid_request"),
        (b"POST / HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n", 400, "invalid_request"),
        (b"POST / HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n", 400, "invalid_request"),
        (b"GET /\xff HTTP/1.1\r\n\r\n", 400, "invalid_request"),
    ],
    ids=range(11),
)
@on_uvloop
async def test_what_is_no_sound_http_is_refused_and_cut_off(sent: bytes, status: int, error: str) -> None:
    """Header bombs, smuggling attempts and other protocols get one answer in our shape, then the end."""
    async with running() as gateway:
        client = await Client.to(gateway)
        client.send(sent)
        told, headers, body = await client.response()
        assert (told, code(body), headers["connection"]) == (status, error, "close")
        assert json.loads(body)["error"]["request_id"] == headers["x-request-id"]
        assert await client.is_closed()
        assert gateway.toy.seen.refused == [error]
        await client.close()


@on_uvloop
async def test_broken_chunks_are_refused_at_once() -> None:
    """A body whose framing is wrong is not waited for."""
    async with running() as gateway:
        client = await Client.to(gateway)
        client.send(head(b"transfer-encoding: chunked", length=-1) + b"zz\r\n")
        status, _, body = await client.response()
        assert (status, code(body)) == (400, "invalid_request")
        assert await client.is_closed()
        await client.close()


@on_uvloop
async def test_headers_that_trickle_are_cut_off() -> None:
    """A slow loris gets its 408 after the header time, however many bytes it sends."""
    async with running(limits=Limits(header_timeout_s=0.3)) as gateway:
        client = await Client.to(gateway)
        for byte in b"POST / HTTP":
            client.send(bytes([byte]))
            await asyncio.sleep(0.02)
        status, _, body = await client.response()
        assert (status, code(body)) == (408, "request_timeout")
        assert await client.is_closed()
        await client.close()


@on_uvloop
async def test_a_silent_connection_is_closed_without_a_word() -> None:
    """Who connects and says nothing holds a place only for the header time."""
    async with running(limits=Limits(header_timeout_s=0.3)) as gateway:
        client = await Client.to(gateway)
        assert await client.is_closed()
        await client.close()


@on_uvloop
async def test_an_idle_connection_is_closed_after_its_time() -> None:
    """Keep-alive has an end."""
    async with running(limits=Limits(keep_alive_s=0.3)) as gateway:
        client = await Client.to(gateway)
        client.send(head() + REQUEST)
        assert (await client.response())[0] == 200
        assert await client.is_closed()
        await client.close()


@on_uvloop
async def test_a_body_that_trickles_is_cut_off() -> None:
    """The body has its time as a whole, not between bytes."""
    async with running(limits=Limits(body_timeout_s=0.3)) as gateway:
        client = await Client.to(gateway)
        client.send(head())
        for byte in REQUEST[:20]:
            client.send(bytes([byte]))
            await asyncio.sleep(0.02)
        status, headers, body = await client.response()
        assert (status, code(body), headers["connection"]) == (408, "request_timeout", "close")
        await client.close()


@on_uvloop
async def test_more_connections_than_allowed_are_turned_away() -> None:
    """The surplus gets a 503 with a time to come back; the others are served."""
    async with running(limits=Limits(connections=4)) as gateway:
        clients = [await Client.to(gateway) for _ in range(3)]
        await asyncio.sleep(0.05)
        status, headers, body = await clients[2].response()
        assert (status, code(body), headers["retry-after"]) == (503, "overloaded", "1")
        clients[0].send(head() + REQUEST)
        assert (await clients[0].response())[0] == 200
        for client in clients:
            await client.close()


@on_uvloop
async def test_an_old_client_gets_a_body_that_ends_with_the_connection() -> None:
    """HTTP/1.0 knows no chunks."""
    async with running(stream) as gateway:
        client = await Client.to(gateway)
        client.send(head().replace(b"HTTP/1.1", b"HTTP/1.0") + REQUEST)
        status, headers = await client.head()
        assert (status, headers["connection"]) == (200, "close")
        assert "transfer-encoding" not in headers
        assert await client.reader.read() == b"data: 0\n\ndata: 1\n\ndata: 2\n\ndata: [DONE]\n\n"
        await client.close()


@pytest.mark.parametrize("pieces", [1, 3])
@on_uvloop
async def test_an_offer_of_another_protocol_is_declined(pieces: int) -> None:
    """Clients that propose HTTP/2 over cleartext, as Java's does, are served in HTTP/1.1."""
    async with running() as gateway:
        client = await Client.to(gateway)
        client.send(
            head(b"connection: upgrade, http2-settings", b"upgrade: h2c", b"http2-settings: AAMAAABk")
            + (REQUEST if pieces == 1 else b"")
        )
        for i in range(0, len(REQUEST) if pieces > 1 else 0, 30):
            await asyncio.sleep(0.01)
            client.send(REQUEST[i : i + 30])
        assert (await client.response())[0] == 200
        await client.close()


@on_uvloop
async def test_a_fault_of_ours_is_a_500_without_details() -> None:
    """A bug in the pipeline becomes an answer in our shape that tells nothing of the prompt."""

    async def bug(call: Call, reply: Reply) -> None:
        raise ValueError("secret prompt")

    async with running(bug) as gateway:
        client = await Client.to(gateway)
        client.send(head() + REQUEST)
        status, _, body = await client.response()
        assert (status, code(body)) == (500, "internal_error")
        assert b"secret" not in body
        assert gateway.toy.seen.crashed == ["ValueError"]
        await client.close()


@on_uvloop
async def test_a_fault_in_the_middle_of_a_stream_is_an_event() -> None:
    """After the first byte the error is said in band, and the stream has its proper end."""

    async def bug(call: Call, reply: Reply) -> None:
        reply.start(200, CHUNKED)
        reply.write(b"data: 1\n\n")
        raise ValueError

    async with running(bug) as gateway:
        client = await Client.to(gateway)
        body = REQUEST.replace(b"{", b'{"stream":true,', 1)
        client.send(head(length=len(body)) + body)
        _, _, told = await client.response()
        assert told.startswith(b'data: 1\n\ndata: {"error":')
        assert b"[DONE]" not in told
        await client.close()


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([b"host: a", b"host: b"], 400),
        ([], 400),
        ([b"host: a", b"authorization: Bearer x"], 400),
        ([b"host: a"], 200),
    ],
)
@on_uvloop
async def test_a_head_says_once_where_it_goes_and_who_asks(lines: list[bytes], status: int) -> None:
    """Finding 17: no host, two hosts, or two credentials are refused (RFC 9112, 3.2)."""
    async with running() as gateway:
        client = await Client.to(gateway)
        client.send(head(*lines).replace(b"host: x\r\n", b"") + REQUEST)
        assert (await client.response())[0] == status
        await client.close()


@on_uvloop
async def test_an_encoded_slash_is_no_way_to_a_route() -> None:
    """Finding 17: ``%2f`` belongs to its segment."""
    async with running() as gateway:
        client = await Client.to(gateway)
        client.send(head(path=b"/v1%2fchat/completions") + REQUEST)
        status, _, body = await client.response()
        assert (status, code(body)) == (404, "route_not_found")
        await client.close()


FRAMINGS = {
    "an extension without an end": b"1;" + b"a" * 4000,
    "an extension in each chunk": b"1;" + b"a" * 400 + b"\r\n \r\n",
    "chunks of one byte": b"1\r\n \r\n",
    "trailers": b"x: " + b"a" * 400 + b"\r\n",
}


@pytest.mark.parametrize("kind", FRAMINGS)
@on_uvloop
async def test_framing_counts_beside_the_content(kind: str) -> None:
    """Sizes, extensions and trailers are bounded by a head's bytes and the content: they can't stream for ever."""
    piece = FRAMINGS[kind]
    async with running() as gateway:
        client = await Client.to(gateway)
        client.send(head(b"transfer-encoding: chunked", length=-1) + (b"0\r\n" if kind == "trailers" else b""))
        await asyncio.sleep(0.05)
        client.send(piece * (200_000 // len(piece)))
        assert (await client.response())[0] == 400
        await client.close()


CODINGS = (b"gzip, chunked", b"identity", b"x\r\ntransfer-encoding: chunked")


@pytest.mark.parametrize("coding", CODINGS)
@on_uvloop
async def test_a_transfer_coding_that_is_not_decoded_is_refused(coding: bytes) -> None:
    """The body would be taken for something that it is not."""
    async with running() as gateway:
        client = await Client.to(gateway)
        client.send(head(b"transfer-encoding: " + coding, length=-1))
        assert (await client.response())[0] == 400
        await client.close()


@pytest.mark.parametrize("value", [b"200-maybe", b"", b"100-continue, 200-maybe"])
@on_uvloop
async def test_an_expectation_that_is_not_met_is_refused(value: bytes) -> None:
    """RFC 9110, 10.1.1: of expectations only 100-continue is known."""
    async with running() as gateway:
        client = await Client.to(gateway)
        client.send(head(b"expect: " + value))
        status, _, body = await client.response()
        assert (status, code(body)) == (417, "unknown_expectation")
        await client.close()


@on_uvloop
async def test_a_client_that_waits_for_a_word_is_told_to_go_on() -> None:
    """In any letters, as header values of this kind are read."""
    async with running() as gateway:
        client = await Client.to(gateway)
        client.send(head(b"expect: 100-Continue"))
        assert (await client.head())[0] == 100
        client.send(REQUEST)
        assert (await client.response())[0] == 200
        await client.close()
