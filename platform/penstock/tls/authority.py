"""The certificate authority of one home, for `penstock up --tls`: it signs for the processes of one machine.

A fleet mounts certificates of its own authority (cert-manager, SPIRE, a company's CA) instead.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from penstock.tls.identity import Identity

BEFORE = timedelta(minutes=5)
"""Issued certificates are valid from a little earlier, since clocks differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    certificate: str
    key: str

    def __repr__(self) -> str:
        return "KeyPair(…)"


def make(name: str, *, now: float, days: float) -> KeyPair:
    """Return a new authority that signs for processes and for no other authority."""
    key, subject = ec.generate_private_key(ec.SECP256R1()), _name(name)
    begun = _begun(subject, subject, key, now, days)
    begun = begun.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    begun = begun.add_extension(_usage(signs=True), critical=True)
    return _pair(begun.sign(key, hashes.SHA256()), key)


def issue(authority: KeyPair, who: Identity, *, now: float, days: float) -> KeyPair:
    issuer = x509.load_pem_x509_certificate(authority.certificate.encode())
    signer = serialization.load_pem_private_key(authority.key.encode(), password=None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ValueError("the authority's key is not on an elliptic curve")  # noqa: TRY004  of a file
    key = ec.generate_private_key(ec.SECP256R1())
    begun = _begun(_name(str(who.role)), issuer.subject, key, now, days)
    begun = begun.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    begun = begun.add_extension(_usage(signs=False), critical=True)
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    begun = begun.add_extension(x509.ExtendedKeyUsage(both), critical=False)
    uri = x509.UniformResourceIdentifier(str(who))
    begun = begun.add_extension(x509.SubjectAlternativeName([uri]), critical=False)
    signed_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    begun = begun.add_extension(signed_by, critical=False)
    return _pair(begun.sign(signer, hashes.SHA256()), key)


def ends_at(certificate: str) -> float:
    return x509.load_pem_x509_certificate(certificate.encode()).not_valid_after_utc.timestamp()


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: float, days: float
) -> x509.CertificateBuilder:
    begins = datetime.fromtimestamp(now, UTC)
    builder = x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(begins - BEFORE).not_valid_after(begins + timedelta(days=days))
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return KeyPair(certificate=certificate.public_bytes(encoding).decode(), key=private.decode())
