"""The end of a handshake: a client checks the server's identity before it sends, and failures are put into words.

Libraries above (asyncio, uvloop, httpx) connect through these contexts and know no roles.
"""

import ssl
from collections.abc import Mapping
from typing import Self, cast

from penstock.domain.clock import Clock
from penstock.telemetry import logs
from penstock.tls.identity import Identity, Role, identity_of

LINES_AT_ONCE = 10
LINE_EVERY_S = 6.0


class Refusals:
    """A burst of lines, then one every few seconds with the count of those left out."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines, self._since = float(LINES_AT_ONCE), clock.monotonic()
        self._untold = 0

    def tell(self, reason: str, address: str = "") -> None:
        now = self._clock.monotonic()
        self._lines = min(float(LINES_AT_ONCE), self._lines + (now - self._since) / LINE_EVERY_S)
        self._since = now
        if self._lines < 1:
            self._untold += 1
            return
        self._lines -= 1
        untold, self._untold = self._untold, 0
        where = {"address": address} if address else {}
        logs.logger().warning("peer_refused", reason=reason, **where, **({"count": untold} if untold else {}))


_REMEDIES = {
    "certificate has expired": "its certificate has expired: have it renewed",
    "in certificate chain": "its certificate is of an authority that is not trusted here",
    "self-signed": "its certificate is of no authority: self-signed",
    "unable to get local issuer": "its certificate is of an authority that is not trusted here",
    "did not return a certificate": "it shows no certificate: give it one",
    "CERTIFICATE_REQUIRED": "it wants a certificate and got none",
    "UNKNOWN_CA": "it does not trust the authority of our certificate",
    "CERTIFICATE_EXPIRED": "it says that our certificate has expired",
    "HTTP_REQUEST": "it speaks plain HTTP: use https://",
    "WRONG_VERSION": "it does not speak TLS at all",
    "UNSUPPORTED_PROTOCOL": "it speaks an older TLS than 1.3",
    "PROTOCOL_VERSION": "it speaks an older TLS than 1.3",
}
"""OpenSSL's messages, and their meaning about the peer."""


class PeerContext(ssl.SSLContext):
    """A client's context names the role that must answer; a listener judges callers later, by certificate and
    address.
    """

    peer: Role | None = None
    trust_domain: str = ""
    refusals: Refusals | None = None
    """Called for callers that a listener refuses."""

    def judge(self, certificate: Mapping[str, object]) -> None:
        """Raise ``SSLCertVerificationError`` if the peer has another role than the one called."""
        if self.peer is None:
            return
        why = stranger(certificate, self.trust_domain)
        if not why and (found := peer_of(certificate)).role is not self.peer:
            why = f"{found} answered instead of a {self.peer}"
        if why:
            raise ssl.SSLCertVerificationError(
                f"the peer's certificate is for another process than the one called: {why}"
            )


def peer_of(certificate: Mapping[str, object]) -> Identity:
    names = cast("tuple[tuple[str, str], ...]", certificate.get("subjectAltName", ()))
    return identity_of(value for kind, value in names if kind == "URI")


def stranger(certificate: Mapping[str, object], trust_domain: str) -> str:
    """Why a verified certificate is not of this platform; empty if it is."""
    try:
        found = peer_of(certificate)
    except ValueError as error:
        return str(error)
    return "" if found.trust_domain == trust_domain else f"{found} is of another trust domain than {trust_domain}"


def in_words(error: BaseException) -> str:
    told = str(error)
    return next((meaning for word, meaning in _REMEDIES.items() if word in told), told or type(error).__name__)


def failed(error: BaseException | None) -> str:
    """The handshake error in words; empty if the failure was another one."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return in_words(error)
        error = error.__cause__ or error.__context__
    return ""


def _told(context: ssl.SSLContext, error: ssl.SSLError) -> None:
    if isinstance(context, PeerContext) and context.peer is None and context.refusals is not None:
        context.refusals.tell(in_words(error))


class _Object(ssl.SSLObject):
    """TLS of asyncio and uvloop. They would drop a failed connection before the alert with the reason is sent; a
    listener therefore waits for one more byte first.
    """

    _ended: ssl.SSLError | None = None
    _out: ssl.MemoryBIO

    @classmethod
    def _create(cls, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, **more: object) -> Self:
        made: Self = super()._create(incoming, outgoing, **more)  # type: ignore[misc]  # typeshed lacks it
        made._out = outgoing
        return made

    def do_handshake(self) -> None:
        if self._ended is not None:
            raise self._ended
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            _told(self.context, error)
            if self.server_side and self._out.pending:
                self._ended = error
                raise ssl.SSLWantReadError from error
            raise
        if isinstance(self.context, PeerContext):
            self.context.judge(self.getpeercert() or {})


class _Socket(ssl.SSLSocket):
    """TLS of a blocking client, the command line."""

    def do_handshake(self, block: bool = False) -> None:  # noqa: FBT001, FBT002  the signature is the library's
        super().do_handshake(block)
        if isinstance(self.context, PeerContext):
            self.context.judge(self.getpeercert() or {})


PeerContext.sslobject_class = _Object
PeerContext.sslsocket_class = _Socket
