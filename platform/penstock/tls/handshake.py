"""The end of a handshake: a client looks who answered before it says anything, and what failed is told in words.

The libraries above (asyncio, uvloop, httpx) make connections by these contexts; none of them knows of roles.
"""

import ssl
from collections.abc import Mapping
from typing import Self, cast

from penstock.tls.identity import Identity, Role, identity_of
from penstock.tls.refusals import Refusals

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
"""What OpenSSL says, and what that means of the peer."""


class PeerContext(ssl.SSLContext):
    """A context that knows who must answer; a listener's judges its callers later, where their address is known."""

    peer: Role | None = None
    trust_domain: str = ""
    refusals: Refusals | None = None
    """Who hears of callers that a listener turns away."""

    def judge(self, certificate: Mapping[str, object]) -> None:
        """Raise ``SSLCertVerificationError`` where somebody else answered than was called."""
        if self.peer is None:
            return
        why = stranger(certificate, self.trust_domain)
        if not why and (found := peer_of(certificate)).role is not self.peer:
            why = f"{found} answered, and a {self.peer} was called"
        if why:
            raise ssl.SSLCertVerificationError(f"the peer is not who was called: {why}")


def peer_of(certificate: Mapping[str, object]) -> Identity:
    """Return who a verified certificate names, or raise ``ValueError``."""
    names = cast("tuple[tuple[str, str], ...]", certificate.get("subjectAltName", ()))
    return identity_of(value for kind, value in names if kind == "URI")


def stranger(certificate: Mapping[str, object], trust_domain: str) -> str:
    """Say why a verified certificate is nobody's of this platform; empty where it is."""
    try:
        found = peer_of(certificate)
    except ValueError as error:
        return str(error)
    return "" if found.trust_domain == trust_domain else f"{found} is of another trust domain than {trust_domain}"


def in_words(error: BaseException) -> str:
    """Return what a failed handshake means."""
    told = str(error)
    return next((meaning for word, meaning in _REMEDIES.items() if word in told), told or type(error).__name__)


def failed(error: BaseException | None) -> str:
    """Return what a failed connection's handshake means; empty where it failed of something else."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return in_words(error)
        error = error.__cause__ or error.__context__
    return ""


def _told(context: ssl.SSLContext, error: ssl.SSLError) -> None:
    if isinstance(context, PeerContext) and context.peer is None and context.refusals is not None:
        context.refusals.tell(in_words(error))


class _Object(ssl.SSLObject):
    """A connection of asyncio or uvloop, which would drop a failed one with the alert that tells the peer why.

    So a listener's wants another byte first: what is written by then goes out, and what comes next ends it.
    """

    _ended: ssl.SSLError | None = None
    _out: ssl.MemoryBIO

    @classmethod
    def _create(cls, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, **more: object) -> Self:
        """Keep where its bytes go; this is how a context makes one."""
        made: Self = super()._create(incoming, outgoing, **more)  # type: ignore[misc]  # typeshed lacks it
        made._out = outgoing
        return made

    def do_handshake(self) -> None:
        """Shake hands; then a client looks who it is."""
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
    """A connection of whoever blocks: the command line."""

    def do_handshake(self, block: bool = False) -> None:  # noqa: FBT001, FBT002  the signature is the library's
        """Shake hands; then look who it is."""
        super().do_handshake(block)
        if isinstance(self.context, PeerContext):
            self.context.judge(self.getpeercert() or {})


PeerContext.sslobject_class = _Object
PeerContext.sslsocket_class = _Socket
