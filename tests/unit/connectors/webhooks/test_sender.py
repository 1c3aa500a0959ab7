"""Attempts to deliver, against real receivers on loopback that misbehave."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from time import monotonic

import pytest

from penstock.connectors.webhooks import sender
from penstock.connectors.webhooks.sender import WebhookSender, retry_after_s
from penstock.domain.jobs.callback_url import Address, networks
from penstock.domain.jobs.webhook import Answer, SendError
from tests.support.patience import patient
from tests.support.tls.server_certificate import server_certificate

LOOPBACK = networks(["127.0.0.0/8"])
OK = b"HTTP/1.1 204 No Content\r\n\r\n"
NOW = 1_764_280_000.0
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


class Receiver:
    """A server that answers each request with ``answer``, and what it was sent."""

    def __init__(self, answer: bytes = OK) -> None:
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.answer = answer

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        self.bodies.append(await reader.readexactly(length))
        writer.write(self.answer)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def serving(talk: Talk, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    async def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(met, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Address]]:
    """Answer for these names instead of the system's resolver; each look-up takes the first address list's head."""
    told: dict[str, list[Address]] = {}

    def look_up(host: str) -> tuple[Address, ...]:
        if host not in told:
            raise OSError
        return tuple(told[host])

    monkeypatch.setattr(sender, "_look_up", look_up)
    return told


def to_loopback(**more: object) -> WebhookSender:
    return WebhookSender(lambda: NOW, allowed=LOOPBACK, **more)  # type: ignore[arg-type]


async def post(from_: WebhookSender, url: str) -> Answer:
    answer = await from_.post("shop", url, {"webhook-id": "evt_1"}, b'{"id":"evt_1"}')
    from_.close()
    return answer


async def test_a_receiver_gets_the_event() -> None:
    """Headers and body as they were signed, under the URL's own host, by one connection that ends."""
    receiver = Receiver()
    async with serving(receiver.talk) as port:
        assert await post(to_loopback(), f"http://127.0.0.1:{port}/hooks?a=B") == Answer(status=204)
    (head,) = receiver.heads
    assert head.startswith(b"POST /hooks?a=B HTTP/1.1\r\n")
    assert f"host: 127.0.0.1:{port}\r\n".encode() in head.lower()
    assert b"webhook-id: evt_1" in head
    assert receiver.bodies == [b'{"id":"evt_1"}']


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
async def test_loopback_is_refused_without_permission(host: str) -> None:
    """Neither an address nor a name that leads inside is connected to."""
    receiver = Receiver()
    async with serving(receiver.talk):
        answer = await post(WebhookSender(lambda: NOW), f"https://{host}/")
    assert answer.error is SendError.ADDRESS_REFUSED
    assert receiver.heads == []


async def test_a_name_that_leads_elsewhere_the_second_time(
    names: dict[str, list[Address]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rebinding: the address is judged at each connection, and the judged one is connected to."""
    connected: list[str] = []

    async def connect(addresses: tuple[Address, ...], *_: object) -> None:
        connected.extend(map(str, addresses))
        raise OSError

    monkeypatch.setattr(sender, "_first", connect)
    outside = WebhookSender(lambda: NOW)

    async def asked() -> Answer:
        return await outside.post("shop", "https://hooks.example/", {}, b"{}")

    names["hooks.example"] = [ip_address("93.184.215.14")]
    assert (await asked()).error is SendError.CONNECTION
    names["hooks.example"] = [ip_address("127.0.0.1")]
    assert (await asked()).error is SendError.ADDRESS_REFUSED
    names["hooks.example"] = [ip_address("93.184.215.14"), ip_address("10.0.0.1")]
    assert (await asked()).error is SendError.ADDRESS_REFUSED
    assert connected == ["93.184.215.14"]


async def test_a_redirect_is_not_followed() -> None:
    """A receiver that leads inside gets no request there, and a failed attempt."""
    inside = Receiver()
    async with serving(inside.talk) as port:
        led = Receiver(b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:%d/\r\ncontent-length: 0\r\n\r\n" % port)
        async with serving(led.talk) as outer:
            answer = await post(to_loopback(), f"http://127.0.0.1:{outer}/")
    assert answer == Answer(status=302, error=SendError.STATUS)
    assert inside.heads == []


async def test_a_receiver_that_sends_a_byte_a_minute_is_left() -> None:
    """The whole attempt has a bound, whatever trickles in meanwhile."""

    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for byte in OK * 99:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.2)

    async with serving(trickle) as port:
        began = monotonic()
        answer = await post(to_loopback(attempt_s=1.0), f"http://127.0.0.1:{port}/")
    assert answer == Answer(error=SendError.TIMEOUT)
    assert monotonic() - began < patient(3.0)


async def test_a_huge_answer_is_cut_off() -> None:
    """The status counts; of a body without end little is read, and none of it kept."""
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    async with serving(flood) as port:
        assert await post(to_loopback(), f"http://127.0.0.1:{port}/") == Answer(status=200)
    assert sent < 32 << 20  # what fits into the sockets' buffers


async def test_a_status_before_a_slow_body_is_an_answer() -> None:
    """A receiver that never ends its body has taken the event all the same."""

    async def stall(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n")
        await asyncio.sleep(60)

    async with serving(stall) as port:
        async with asyncio.timeout(patient(5.0)):
            assert await post(to_loopback(), f"http://127.0.0.1:{port}/") == Answer(status=200)


async def test_endless_headers_are_refused() -> None:
    """An answer's head is bounded, too."""

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"x-more: " + b"y" * 65536 + b"\r\n")
            await writer.drain()

    async with serving(flood) as port:
        assert (await post(to_loopback(), f"http://127.0.0.1:{port}/")).error is SendError.ANSWER


@pytest.mark.parametrize(("answer", "error"), [(b"SSH-2.0-OpenSSH\r\n\r\n", SendError.ANSWER), (b"", SendError.ANSWER)])
async def test_what_is_no_http_is_told_as_such(answer: bytes, error: SendError) -> None:
    """Without its words."""
    async with serving(Receiver(answer).talk) as port:
        assert await post(to_loopback(), f"http://127.0.0.1:{port}/") == Answer(error=error)


@pytest.mark.parametrize("name", [b"Retry-After", b"retry-after", b"RETRY-AFTER"])
async def test_a_wish_for_silence_is_heard_in_any_case(name: bytes) -> None:
    """Header names have no case; receivers send this one as the RFC writes it."""
    said = b"HTTP/1.1 429 Too Many Requests\r\n" + name + b": 7\r\ncontent-length: 0\r\n\r\n"
    async with serving(Receiver(said).talk) as port:
        found = await post(to_loopback(), f"http://127.0.0.1:{port}/")
    assert (found.status, found.retry_after_s) == (429, 7.0)


async def test_nobody_there(names: dict[str, list[Address]]) -> None:
    """A closed port and an unknown name have codes of their own."""
    async with serving(Receiver().talk) as port:
        pass
    assert (await post(to_loopback(), f"http://127.0.0.1:{port}/")).error is SendError.CONNECTION
    assert (await post(to_loopback(), "http://nothing.example/")).error is SendError.NAME_NOT_FOUND


async def test_tls_proves_the_name(names: dict[str, list[Address]], tmp_path: Path) -> None:
    """A receiver is believed by its name, though the connection goes to an address that was resolved before."""
    at, trusted = server_certificate(tmp_path, "hooks.example")
    names |= {"hooks.example": [ip_address("127.0.0.1")], "other.example": [ip_address("127.0.0.1")]}
    receiver = Receiver()
    async with serving(receiver.talk, at) as port:
        assert await post(to_loopback(tls=trusted), f"https://hooks.example:{port}/") == Answer(status=204)
        assert (await post(to_loopback(tls=trusted), f"https://other.example:{port}/")).error is SendError.TLS
        assert (await post(to_loopback(), f"https://hooks.example:{port}/")).error is SendError.TLS
    assert len(receiver.heads) == 1


async def test_an_egress_proxy_is_asked_and_the_environments_is_not(
    names: dict[str, list[Address]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy resolves names; a variable of the environment changes no way out."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    asked: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 407 Refused\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()

    async with serving(refuse) as port:
        through = WebhookSender(lambda: NOW, proxy=f"http://me:pass@127.0.0.1:{port}")
        assert (await post(through, "https://hooks.example/")).error is SendError.PROXY
        assert (await post(through, "https://10.0.0.1/")).error is SendError.ADDRESS_REFUSED
    (head,) = asked
    assert head.startswith(b"CONNECT hooks.example:443 HTTP/1.1")
    assert b"proxy-authorization: Basic bWU6cGFzcw==" in head.replace(b"Proxy-Authorization", b"proxy-authorization")
    receiver = Receiver()
    async with serving(receiver.talk) as port:
        assert (await post(to_loopback(), f"http://127.0.0.1:{port}/")).status == 204


async def test_a_name_server_that_hangs_holds_two_of_its_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another tenant's name is looked up meanwhile, and the hanging look-ups hold their turns until they end."""
    import threading

    ending, asked = threading.Event(), []

    def look_up(host: str) -> tuple[Address, ...]:
        asked.append(host)
        if host.startswith("slow"):
            ending.wait(30)
        return (ip_address("127.0.0.1"),)

    monkeypatch.setattr(sender, "_look_up", look_up)
    names = sender.Resolver()
    slow = [asyncio.create_task(names.addresses("slow", f"slow{i}.example")) for i in range(9)]
    async with asyncio.timeout(patient(2.0)):
        assert await names.addresses("quick", "quick.example") == (ip_address("127.0.0.1"),)
    for task in slow[:2]:
        task.cancel()
    await asyncio.sleep(0.05)
    assert sum(host.startswith("slow") for host in asked) == 2
    ending.set()
    await asyncio.gather(*slow, return_exceptions=True)
    names.close()


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("120", 120.0),
        ("0", 0.0),
        ("Thu, 27 Nov 2025 21:46:50 GMT", 10.0),
        ("Thu, 27 Nov 2025 21:00:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
        ("", None),
        ("1e9", None),
        ("9" * 30, 999_999_999.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(told: str, seconds: float | None) -> None:
    """Anything else is no wish."""
    assert retry_after_s(told, NOW) == seconds
