"""Accepts connections for gRPC's core, which would accept them itself, and passes their bytes on.

The core listens on a socket private to this process. So connections count by address as over HTTP, bytes of incomplete
messages by tenant, and a connection without a call under a valid key is closed in time.

Trade-off: two more sockets per client, and one more copy of each byte.
"""

import asyncio
import math
import secrets
import socket
from contextlib import suppress
from typing import Protocol

from penstock.domain.errors import PenstockError, RequestTimedOut
from penstock.domain.ids import TenantId
from penstock.intake.frames import Frames, HeadersTooLong, NotHttp2
from penstock.intake.held import HeldBytes, Intake
from penstock.intake.limits import LINGER_BYTES, LINGER_S, Limits
from penstock.lateness.awake import awake_time

BACKLOG = 2048
SWEEP_EVERY_S = 0.5
LARGE_BYTES = 16 << 10
"""Bytes from which an incomplete message is counted, and its caller's limits are checked."""
STRANGER_BYTES = 128 << 10
"""Incomplete bytes before the first valid key: the amount that a client may send before the server grants more."""
MOST_STRANGE_CALLS = 100
"""Calls on one connection before one has a valid key: health checkers make one a second."""
MOST_RESETS, RESETS_PER_S = 1000, 100.0
"""Calls that a client may cancel, at once and in the long run: each costs the gateway 30 µs, and a disconnecting user
cancels one.
"""
ATOMIC_BYTES = 64 << 10
"""The server writes smaller answers in one piece, so they end with a frame."""
JOIN_AGAIN_S, JOIN_TRIES = 0.01, 500
"""Retries, because the server's accept queue may be full for a moment."""
_PREFIX = "unix-abstract:"


class Waiting(Protocol):
    def large(self) -> None: ...

    def refuse(self, error: PenstockError) -> None: ...


class Client(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(self, relay: "Relay") -> None:
        self._relay = relay
        self._frames = Frames(relay.limits.header_bytes)
        self._server: _Server | None = None
        self._early: list[bytes] = []
        self._held: HeldBytes | None = None
        self._waiting: dict[Waiting, float] = {}
        """The calls that wait for a message, and the second at which each has waited too long."""
        self._writing: dict[object, float] = {}
        self._resets_from = self._refused_at = 0.0
        self._discarded_bytes = 0
        self.tenant: TenantId | None = None
        self.address = self.name = ""
        """``name`` is that of the client's socket at the server; empty before it has one."""
        self.since = self.stuck_since = 0.0

    # -- the client's side ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self.address = str((transport.get_extra_info("peername") or ("",))[0])
        transport.set_write_buffer_limits(high=self._relay.limits.write_buffer_bytes)
        self.since = self._resets_from = self._relay.now()
        self._relay.enter(self)

    def data_received(self, data: bytes) -> None:
        now = self._relay.now()
        if self._refused_at:
            self._discard(len(data))
            return
        try:
            self._frames.feed(data, now)
        except HeadersTooLong as error:
            self._refuse(error.last_words, now)
            return
        except NotHttp2:
            self.transport.abort()
            return
        if self._frames.held > LARGE_BYTES or self._held is not None:
            self._count()
        if self._is_abusive(now):
            self.transport.abort()
        elif self._server is not None:
            self._server.transport.write(data)
        else:
            self._early.append(data)
            if len(self._early) == 1:
                self.transport.pause_reading()
                self._relay.join(self)

    def eof_received(self) -> None:
        """Close the connection; HTTP/2 has no half-closed one."""

    def pause_writing(self) -> None:
        self.stuck_since = self._relay.now()
        if self._server is not None:
            self._server.transport.pause_reading()

    def resume_writing(self) -> None:
        self.stuck_since = 0.0
        if self._server is not None:
            self._server.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self._server is not None:
            self._server.transport.abort()
        self._release()
        self._relay.leave(self)

    # -- the server's side -----------------------------------------------------------------------

    def joined(self, server: "_Server") -> None:
        if self.transport.is_closing() or self._refused_at:
            server.transport.abort()
            return
        self._server = server
        server.transport.writelines(self._early)
        self._early.clear()
        self.transport.resume_reading()

    def passed_on(self, data: bytes) -> None:
        self._frames.is_greeted = True
        self.transport.write(data)

    def ended(self) -> None:
        if not self.transport.is_closing() and not self._refused_at:
            self.stuck_since = self._relay.now()
            self.transport.close()

    # -- its calls ---------------------------------------------------------------------------------

    def prove(self, tenant: TenantId) -> None:
        if self.tenant is None:
            self._relay.prove(self)
        self.tenant = tenant

    def waits(self, call: Waiting, within_s: float | None) -> None:
        """Register a call that waits for its message until ``received``, at most for these seconds."""
        self._waiting[call] = math.inf if within_s is None else self._relay.now() + within_s
        if self._held is not None:
            call.large()

    def received(self, call: Waiting) -> None:
        self._waiting.pop(call, None)

    def writes(self, call: object) -> None:
        """Record that a call waits for its client to read; ``wrote`` ends that."""
        self._writing[call] = self._relay.now()

    def wrote(self, call: object) -> None:
        self._writing.pop(call, None)

    def sweep(self, now: float) -> None:
        limits = self._relay.limits
        for call, due in list(self._waiting.items()):
            if due < now:
                call.refuse(RequestTimedOut("no message was received in time"))
        is_stranger = self.tenant is None and now - self.since > limits.header_timeout_s
        unread_since = next(iter(self._writing.values()), now)
        is_stuck = now - min(self.stuck_since or now, unread_since) > limits.unread_s
        is_stuck |= bool(self._refused_at) and now - self._refused_at > LINGER_S
        if is_stuck or (is_stranger and self.transport.is_closing()):
            self.transport.abort()
        elif is_stranger:
            self.transport.close()
        elif self._frames.late(now - limits.body_timeout_s - limits.unread_s):
            self._count()

    def _refuse(self, last_words: bytes, now: float) -> None:
        """Refuse on the server's behalf, then keep reading for a while: a reset could discard the answer."""
        self._refused_at = now
        is_between_frames = self._server is None or self._server.last_bytes < ATOMIC_BYTES
        if self._server is not None:
            self._server.transport.abort()
        if is_between_frames:
            self.transport.write(last_words)
        if self.transport.can_write_eof():  # TLS has no half of a connection
            self.transport.write_eof()

    def _discard(self, size: int) -> None:
        self._discarded_bytes += size
        if self._discarded_bytes > LINGER_BYTES:
            self.transport.abort()

    def _is_abusive(self, now: float) -> bool:
        frames = self._frames
        if self.tenant is None and (frames.calls > MOST_STRANGE_CALLS or frames.held > STRANGER_BYTES):
            return True
        return frames.resets > MOST_RESETS + RESETS_PER_S * (now - self._resets_from)

    def _count(self) -> None:
        """Hold the bytes of incomplete messages, or refuse the calls that wait for these messages."""
        size = self._frames.held
        if size <= LARGE_BYTES or self.tenant is None:
            self._release()
            return
        try:
            if self._held is None:
                self._held = self._relay.intake.begin(self.tenant)
                self._held.arrives()
                for call in list(self._waiting):
                    call.large()
            self._held.hold(size)
        except PenstockError as error:
            self._frames.drop()
            self._release()
            for call in list(self._waiting):
                call.refuse(error)

    def _release(self) -> None:
        if self._held is not None:
            self._held.release()
            self._held = None


class _Server(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(self, client: Client) -> None:
        self._client = client
        self.last_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self._client.joined(self)

    def data_received(self, data: bytes) -> None:
        self.last_bytes = len(data)
        self._client.passed_on(data)

    def pause_writing(self) -> None:
        self._client.transport.pause_reading()

    def resume_writing(self) -> None:
        self._client.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._client.ended()


class Relay:
    def __init__(self, limits: Limits, intake: Intake) -> None:
        self.limits, self.intake = limits, intake
        self.server_name = f"penstock-{secrets.token_hex(16)}"
        self._clients: set[Client] = set()
        self._by_name: dict[str, Client] = {}
        self._joining: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Server | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self.now = awake_time().seconds

    @property
    def server_address(self) -> str:
        """The address of the socket at which the gRPC server listens, in gRPC's form."""
        return f"{_PREFIX}{self.server_name}"

    async def start(self, host: str, port: int) -> int:
        """Accept at this address, which other processes may share, and return the port; raises ``OSError``."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, self.limits.write_buffer_bytes)
            listener.bind((host, port))
            self._listening = await self._loop.create_server(lambda: Client(self), sock=listener, backlog=BACKLOG)
        except OSError:
            listener.close()
            raise
        self._sweeping = self._loop.create_task(self._sweep())
        return int(listener.getsockname()[1])

    def client(self, peer: str) -> Client | None:
        return self._by_name.get(peer.removeprefix(_PREFIX))

    def stop_accepting(self) -> None:
        if self._listening is not None:
            self._listening.close()

    def close(self) -> None:
        self.stop_accepting()
        if self._sweeping is not None:
            self._sweeping.cancel()
        for task in self._joining:
            task.cancel()
        for client in list(self._clients):
            client.transport.close()

    # -- for its clients -----------------------------------------------------------------------

    def enter(self, client: Client) -> None:
        self._clients.add(client)
        stays, gives_way = self.intake.addresses.enter(client.address, client, client.since)
        if gives_way is not None:
            gives_way.transport.abort()
        if not stays:
            client.transport.abort()

    def prove(self, client: Client) -> None:
        self.intake.addresses.spoke(client.address, client)
        self.intake.addresses.prove(client.address)

    def leave(self, client: Client) -> None:
        self._clients.remove(client)
        self._by_name.pop(client.name, None)
        self.intake.addresses.leave(client.address, client)

    def join(self, client: Client) -> None:
        task = self._loop.create_task(self._join(client))
        self._joining.add(task)
        task.add_done_callback(self._joining.discard)

    async def _join(self, client: Client) -> None:
        joint = socket.socket(socket.AF_UNIX)
        joint.settimeout(0.0)
        joint.bind("")  # the kernel finds a free name
        try:
            await self._connect(joint, client)
            client.name = joint.getsockname()[1:].decode()
            self._by_name[client.name] = client
            await self._loop.create_unix_connection(lambda: _Server(client), sock=joint)
        except OSError:
            joint.close()
            client.transport.abort()

    async def _connect(self, joint: socket.socket, client: Client) -> None:
        """Connect to the gRPC server for a client that is still here; raises ``OSError``."""
        for _ in range(JOIN_TRIES):
            if client not in self._clients:
                raise ConnectionResetError
            with suppress(BlockingIOError):
                joint.connect(f"\0{self.server_name}")
                return
            await asyncio.sleep(JOIN_AGAIN_S)
        raise TimeoutError

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_EVERY_S)
            now = self.now()
            for client in list(self._clients):
                client.sweep(now)
