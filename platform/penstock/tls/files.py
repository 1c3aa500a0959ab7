"""Reads a process's certificate, key and authorities from files and checks them before use.

A fault is reported with file, reason and remedy here, not by a TLS library at the first connection.
"""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from penstock.domain.command_error import CommandError
from penstock.mounted import secret_file
from penstock.mounted.secret_file import Stamp
from penstock.tls.identity import FORM, Identity, Role, identity_of

_RENEW = "Have it issued again; who issues it renews it by itself: look why that did not happen."


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """``authorities`` may hold several, all trusted, so that one can replace another."""

    certificate: Path
    key: Path
    authorities: Path

    @property
    def stamp(self) -> tuple[Stamp, ...]:
        return tuple(secret_file.stamp(file) for file in (self.certificate, self.key, self.authorities))


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    identity: Identity
    starts_at: float
    ends_at: float


def read(files: Files, role: Role, now: float) -> Own:
    """Return this process's identity; raises ``CommandError``."""
    chain = _certificates(files.certificate, "certificate")
    authorities = _certificates(files.authorities, "file of authorities' certificates")
    secret_file.text(files.key, "key of the certificate")
    _check_time(chain[0], f"The certificate in {files.certificate}", now)
    _check_authorities(authorities, files.authorities, now)
    _check_issuer(chain[-1], authorities, files)
    identity = _identity(chain[0], files.certificate, role)
    return Own(
        identity=identity,
        starts_at=chain[0].not_valid_before_utc.timestamp(),
        ends_at=chain[0].not_valid_after_utc.timestamp(),
    )


def load(context: ssl.SSLContext, files: Files) -> None:
    """Raises ``CommandError`` if certificate and key do not match."""
    try:
        context.load_cert_chain(files.certificate, files.key, password=_no_password)
        context.load_verify_locations(files.authorities)
    except ssl.SSLError as error:
        if "KEY_VALUES_MISMATCH" in str(error):
            raise CommandError(
                f"The key in {files.key} does not belong to the certificate in {files.certificate}.",
                do="Mount both from the same issue of it.",
            ) from error
        raise CommandError(
            f"The key in {files.key} can't be used: {error.reason or error}.",
            do="Mount it as PEM (PKCS#8), without a password.",
        ) from error
    except OSError as error:
        raise CommandError(
            f"The certificate's files beside {files.certificate} can't be read: {error.strerror}.",
            do="Mount them, or correct their names.",
        ) from error


def _no_password() -> str:
    return ""


def _certificates(file: Path, what: str) -> Sequence[x509.Certificate]:
    text = secret_file.text(file, what, secret=False)
    try:
        return x509.load_pem_x509_certificates(text.encode())
    except ValueError as error:
        raise CommandError(f"The {what} in {file} can't be read: {error}.", do="Mount it as PEM.") from error


def _check_time(certificate: x509.Certificate, what: str, now: float) -> None:
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    moment = datetime.fromtimestamp(now, UTC)
    if moment > ends:
        raise CommandError(f"{what} has expired ({ends:%Y-%m-%d %H:%M} UTC).", do=_RENEW)
    if moment < begins:
        raise CommandError(
            f"{what} is not valid before {begins:%Y-%m-%d %H:%M} UTC.", do="Set this machine's clock, or wait."
        )


def _check_authorities(authorities: Sequence[x509.Certificate], file: Path, now: float) -> None:
    """An expired authority beside a valid one is normal during rotation."""
    errors = []
    for one in authorities:
        try:
            _check_time(one, f"The authority's certificate in {file}", now)
        except CommandError as error:
            errors.append(error)
    if len(errors) == len(authorities):
        raise errors[0]


def _check_issuer(topmost: x509.Certificate, authorities: Sequence[x509.Certificate], files: Files) -> None:
    if any(topmost == one or _is_issued_by(topmost, one) for one in authorities):
        return
    raise CommandError(
        f"The certificate in {files.certificate} is of another authority ({topmost.issuer.rfc4514_string()}) "
        f"than those in {files.authorities}.",
        do="While an authority is replaced, put both into that file.",
    )


def _is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _identity(certificate: x509.Certificate, file: Path, role: Role) -> Identity:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        identity = identity_of(found.get_values_for_type(x509.UniformResourceIdentifier))
    except (x509.ExtensionNotFound, ValueError) as error:
        why = "it has no alternative names" if isinstance(error, x509.ExtensionNotFound) else str(error)
        raise CommandError(
            f"The certificate in {file} does not say who this process is: {why}.",
            do=f"Have it issued with the URI {FORM.replace('<role>', role)}.",
        ) from error
    if identity.role is not role:
        raise CommandError(
            f"The certificate in {file} is of a {identity.role} ({identity}), and this process is a {role}.",
            do=f"Mount the {role}'s own.",
        )
    return identity
