"""A certificate authority for tests: certificates of servers by name."""

import datetime as dt
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PEM = serialization.Encoding.PEM
DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Authority:
    """One authority, with its certificate in ``folder/ca.pem``."""

    folder: Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def file(self) -> Path:
        return self.folder / "ca.pem"

    def issue(self, names: Sequence[str], uris: Sequence[str] = ()) -> dict[str, str]:
        """Return what cert-manager puts into a secret: key, certificate, and the authority's own."""
        key = ec.generate_private_key(ec.SECP256R1())
        uses = [*map(x509.DNSName, names), *map(x509.UniformResourceIdentifier, uris)]
        mine = _certificate(names[0], key, self.certificate.subject, self.key, x509.SubjectAlternativeName(uses))
        private = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        own, its = (one.public_bytes(PEM).decode() for one in (mine, self.certificate))
        return {"tls.key": private.decode(), "tls.crt": own, "ca.crt": its}

    def server(self, name: str) -> ssl.SSLContext:
        """Return a server's side of TLS under this name."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._kept(name, self.issue([name])))
        return context

    def _kept(self, name: str, issued: dict[str, str]) -> Path:
        file = self.folder / f"{name}.pem"
        file.write_text(issued["tls.key"] + issued["tls.crt"])
        return file


def authority(folder: Path) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority of tests")])
    own = _certificate("an authority of tests", key, name, key, x509.BasicConstraints(ca=True, path_length=0))
    found = Authority(folder, key, own)
    found.file.write_bytes(own.public_bytes(PEM))
    return found


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    signer: ec.EllipticCurvePrivateKey,
    extension: x509.ExtensionType,
) -> x509.Certificate:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + DAY)
        .add_extension(extension, critical=False)
        .sign(signer, hashes.SHA256())
    )
