"""TLS contexts of one process, rebuilt when the certificate files change.

Files are checked on new connections, at most once per ``LOOK_EVERY_S``; open connections are kept. Unusable files leave
the previous context in force. Session resumption is off: a resumed session would outlive its certificate.
"""

import ssl
from collections.abc import Callable

from penstock.domain.clock import Clock
from penstock.domain.command_error import CommandError
from penstock.telemetry import logs, names
from penstock.telemetry.metrics import Metrics
from penstock.tls import files as mounted
from penstock.tls.files import Files, Own
from penstock.tls.handshake import PeerContext, Refusals
from penstock.tls.identity import Identity, Role

LOOK_EVERY_S = 1.0
SOON_RATIO = 0.1
"""Part of its lifetime before expiry at which a certificate should have been renewed."""


class Mutual:
    def __init__(self, files: Files, role: Role, clock: Clock) -> None:
        self._files, self._role, self._clock = files, role, clock
        self._refusals = Refusals(clock)
        self._seen = files.stamp
        self._look_at = clock.monotonic() + LOOK_EVERY_S
        self._is_told = False
        self._clients: dict[Role, ssl.SSLContext] = {}
        self._own, self._server = self._read()
        self._listener = self._context(ssl.PROTOCOL_TLS_SERVER, None)
        self._listener.sni_callback = self._exchange  # called at each hello, also where no name is said

    @property
    def identity(self) -> Identity:
        return self._own.identity

    @property
    def files(self) -> Files:
        return self._files

    def now(self) -> Own:
        self._look()
        return self._own

    @property
    def refusals(self) -> Refusals:
        return self._refusals

    def server(self) -> ssl.SSLContext:
        """Return a listener's context; each new connection uses the newest files."""
        return self._listener

    def client(self, peer: Role) -> ssl.SSLContext:
        self._look()
        if peer not in self._clients:
            self._clients[peer] = self._context(ssl.PROTOCOL_TLS_CLIENT, peer)
        return self._clients[peer]

    def _exchange(self, connection: ssl.SSLObject, name: str | None, listener: ssl.SSLContext) -> None:
        del name, listener
        self._look()
        connection.context = self._server

    def _look(self) -> None:
        now = self._clock.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_EVERY_S
        self._warn()
        stamp = self._files.stamp
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            self._own, self._server = self._read()
        except CommandError as error:
            logs.logger().error("certificate_not_changed", reason=f"{error.what} {error.do}")
            return
        self._clients, self._is_told = {}, False
        logs.logger().info("certificate_changed", detail=str(self._own.identity))

    def _warn(self) -> None:
        """Warn once if the certificate expires soon or has expired: renewal has failed."""
        left_s, life_s = self._own.ends_at - self._clock.now(), self._own.ends_at - self._own.starts_at
        if self._is_told or left_s > SOON_RATIO * life_s:
            return
        self._is_told = True
        ends = "has expired" if left_s < 0 else f"expires in {left_s / 60:.0f} minutes"
        logs.logger().warning("certificate_expires", reason=f"The certificate in {self._files.certificate} {ends}.")

    def _read(self) -> tuple[Own, ssl.SSLContext]:
        own = mounted.read(self._files, self._role, self._clock.now())
        return own, self._context(ssl.PROTOCOL_TLS_SERVER, None, own)

    def _context(self, protocol: "ssl._SSLMethod", peer: Role | None, own: Own | None = None) -> PeerContext:
        context = PeerContext(protocol)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # a peer is known by its role: tables name addresses, which are nobody's own
        context.verify_mode = ssl.CERT_REQUIRED
        context.options |= ssl.OP_NO_TICKET
        if protocol is ssl.PROTOCOL_TLS_SERVER:
            context.num_tickets = 0
        context.peer, context.trust_domain = peer, (own or self._own).identity.trust_domain
        context.refusals = self._refusals
        mounted.load(context, self._files)
        return context


def show_expiry(own: Callable[[], Own], metrics: Metrics) -> None:
    role = own().identity.role
    metrics.gauge(names.CERTIFICATE_STARTS_AT).labels(role).set_function(lambda: own().starts_at)
    metrics.gauge(names.CERTIFICATE_ENDS_AT).labels(role).set_function(lambda: own().ends_at)
