"""One attempt to deliver a webhook: a POST to a checked address, in bounded time, answered by a status.

Each attempt resolves the name anew and connects to the addresses that were judged; TLS proves the name. It follows no
redirects and ignores the environment's proxies and the answer's body. A configured egress proxy resolves names itself,
and has to refuse addresses of the inside.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

import httpcore

from penstock import __version__
from penstock.domain.errors import InvalidField
from penstock.domain.jobs import callback_url
from penstock.domain.jobs.callback_url import Address, CallbackUrl, Network
from penstock.domain.jobs.webhook import Answer, SendError
from penstock.lateness.awake import timeout

LOOKUPS: Final = 256
LOOKUPS_OF_TENANT: Final = 2


class Resolver:
    """Names to addresses: a name server that hangs delays deliveries of its own tenant.

    Trade-off: a lookup blocks a thread and can't be ended; 128 tenants with servers that hang would delay another's.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(LOOKUPS, thread_name_prefix="webhook-names")
        self._tenants: dict[str, asyncio.Semaphore] = {}

    async def addresses(self, tenant: str, host: str) -> tuple[Address, ...]:
        """Resolve the name, or return the address that it is; raises ``OSError``."""
        try:
            return (ip_address(host),)
        except ValueError:
            return await self._look_up(tenant, host)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _look_up(self, tenant: str, host: str) -> tuple[Address, ...]:
        gate = self._tenants.setdefault(tenant, asyncio.Semaphore(LOOKUPS_OF_TENANT))
        await gate.acquire()
        lookup = asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host)

        def ended(lookup: "asyncio.Future[tuple[Address, ...]]") -> None:
            gate.release()
            if not lookup.cancelled():
                lookup.exception()  # noted as seen: whoever waited may have left

        lookup.add_done_callback(ended)
        return await asyncio.shield(lookup)  # the thread goes on when its caller leaves, and holds the tenant's turn


def _look_up(host: str) -> tuple[Address, ...]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(ip_address(str(where[0])) for *_, where in found))


ATTEMPT_S: Final = 15.0
"""Seconds of an attempt, from the name's lookup to the status: the least that the specification asks for."""
CONNECT_S: Final = 5.0
"""Seconds of a connection to one address."""
MOST_ADDRESSES: Final = 3
"""Addresses of a name that are tried."""
MOST_BODY_BYTES: Final = 16 << 10
BODY_S: Final = 1.0
"""Seconds for which an answer's body is read, so that a receiver can end it; the status has come by then."""

_ERRORS: Sequence[tuple[type[Exception], SendError]] = (
    (TimeoutError, SendError.TIMEOUT),
    (httpcore.TimeoutException, SendError.TIMEOUT),
    (httpcore.ProxyError, SendError.PROXY),
    (httpcore.ProtocolError, SendError.ANSWER),
    (httpcore.NetworkError, SendError.CONNECTION),
    (OSError, SendError.CONNECTION),
)


class AddressRefused(Exception):
    """Callbacks may not reach an address of this name."""


class NameNotFound(Exception):
    """Or its name servers do not answer."""


@dataclass(frozen=True, slots=True)
class Guard(httpcore.AsyncNetworkBackend):
    """One callback: all addresses of its name must be allowed."""

    url: CallbackUrl
    tenant: str
    allowed: Sequence[Network]
    resolver: Resolver

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  httpcore's own signature
        local_address: str | None = None,  # noqa: ARG002
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,  # noqa: ARG002
    ) -> httpcore.AsyncNetworkStream:
        try:
            addresses = await self.resolver.addresses(self.tenant, host)
        except (OSError, UnicodeError) as error:
            raise NameNotFound from error
        if not callback_url.may_reach(addresses, self.url, self.allowed):
            raise AddressRefused
        return await _first(addresses[:MOST_ADDRESSES], port, timeout)


async def _first(
    addresses: Sequence[callback_url.Address],
    port: int,
    timeout: float | None,  # noqa: ASYNC109
) -> httpcore.AsyncNetworkStream:
    *others, last = addresses
    for address in others:
        with suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
            return await httpcore.AnyIOBackend().connect_tcp(str(address), port, timeout)
    return await httpcore.AnyIOBackend().connect_tcp(str(last), port, timeout)


class WebhookSender:
    """``allowed`` networks may be reached beside the public Internet."""

    def __init__(
        self,
        now: Callable[[], float],
        *,
        allowed: Sequence[Network] = (),
        proxy: str = "",
        tls: ssl.SSLContext | None = None,
        attempt_s: float = ATTEMPT_S,
    ) -> None:
        self._now, self._allowed, self._proxy, self._attempt_s = now, allowed, proxy, attempt_s
        self._tls = tls or httpcore.default_ssl_context()
        self._resolver = Resolver()

    def close(self) -> None:
        self._resolver.close()

    async def post(self, tenant: str, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """The answer's status, or why there is none; it raises nothing."""
        try:
            async with timeout(self._attempt_s):
                return await self._post(tenant, callback_url.parse(url, self._allowed), headers, body)
        except (AddressRefused, InvalidField):
            return Answer(error=SendError.ADDRESS_REFUSED)
        except NameNotFound:
            return Answer(error=SendError.NAME_NOT_FOUND)
        except Exception as error:  # noqa: BLE001  any failure of a receiver is an outcome, and none ends the sender
            return Answer(error=_error_of(error))

    async def _post(self, tenant: str, url: CallbackUrl, headers: Mapping[str, str], body: bytes) -> Answer:
        where = httpcore.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target)
        sent = {**headers, "host": url.authority, "user-agent": f"penstock/{__version__}", "connection": "close"}
        limits = {"timeout": {"connect": CONNECT_S}}
        async with (
            self._connections(tenant, url) as connections,
            connections.stream("POST", where, headers=list(sent.items()), content=body, extensions=limits) as answer,
        ):
            await _drain(answer)
            told = next((value for name, value in answer.headers if name.lower() == b"retry-after"), b"")
            is_success = 200 <= answer.status < 300  # noqa: PLR2004
            return Answer(
                status=answer.status,
                error=None if is_success else SendError.STATUS,
                retry_after_s=retry_after_s(told.decode("latin-1"), self._now()),
            )

    def _connections(self, tenant: str, url: CallbackUrl) -> httpcore.AsyncConnectionPool:
        if not self._proxy:
            guard = Guard(url, tenant, self._allowed, self._resolver)
            return httpcore.AsyncConnectionPool(self._tls, network_backend=guard, max_keepalive_connections=0)
        parts = urlsplit(self._proxy)
        login = (parts.username, parts.password or "") if parts.username else None
        return httpcore.AsyncHTTPProxy(
            parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl(), proxy_auth=login, ssl_context=self._tls
        )


async def _drain(answer: httpcore.Response) -> None:
    """Read the rest of the body if it is small and arrives soon."""
    read = 0
    with suppress(TimeoutError, httpcore.NetworkError, httpcore.ProtocolError):
        async with timeout(BODY_S):
            async for part in answer.aiter_stream():
                read += len(part)
                if read >= MOST_BODY_BYTES:
                    return


def _error_of(error: Exception) -> SendError:
    cause: BaseException | None = error
    while isinstance(error, httpcore.ConnectError) and cause is not None:
        if isinstance(cause, ssl.SSLError):
            return SendError.TLS
        cause = cause.__cause__ or cause.__context__
    return next((code for kind, code in _ERRORS if isinstance(error, kind)), SendError.ANSWER)


def retry_after_s(told: str, now: float) -> float | None:
    """Seconds or a date; None for anything else."""
    if told.isascii() and told.isdigit():
        return float(told[:9])
    try:
        return max(0.0, parsedate_to_datetime(told).timestamp() - now)
    except (ValueError, OverflowError):
        return None
