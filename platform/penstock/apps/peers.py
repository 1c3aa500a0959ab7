"""This process's certificate from the settings, and the rule that remote stores must be verified."""

from pathlib import Path

from penstock.domain.clock import Clock
from penstock.domain.command_error import CommandError
from penstock.settings.stores import PeerSettings
from penstock.settings.told import PREFIX, Home, Tls, Told
from penstock.tls.files import Files
from penstock.tls.identity import Role
from penstock.tls.mutual import Mutual
from penstock.tls.stores import unverified

FIELDS = ("tls_cert_file", "tls_key_file", "tls_ca_file")
MOUNTED = ("platform_key_file", "worker_key_file")
STORES = ("database", "limits", "answers")
_OFF = f"set {PREFIX}TLS=off if the network is private."


def mutual(settings: PeerSettings, role: Role, clock: Clock) -> Mutual | None:
    """Return the process's mutual TLS, None if off; ``CommandError`` for contradicting settings."""
    check_stores(settings)
    files = files_of(settings, role)
    if files is None and _is_strict(settings):
        raise CommandError(
            "This process has mounted keys and no certificate: its traffic could be read.",
            do=f"Mount one for {', '.join(map(_variable, FIELDS))}, or {_OFF}",
        )
    return Mutual(files, role, clock) if files else None


def files_of(settings: PeerSettings, role: Role) -> Files | None:
    named = dict(zip(FIELDS, (settings.tls_cert_file, settings.tls_key_file, settings.tls_ca_file), strict=True))
    if settings.tls is Tls.OFF:
        _check_off([_variable(field) for field, file in named.items() if file])
        return None
    if all(named.values()):
        certificate, key, authorities = map(Path, named.values())
        return Files(certificate=certificate, key=key, authorities=authorities)
    if any(named.values()):
        missing = [_variable(field) for field, file in named.items() if not file]
        raise CommandError(f"A certificate is named without {' and '.join(missing)}.", do="Name all three files.")
    return of_home(settings.paths, role) if settings.tls is Tls.ON else None


def _check_off(named: list[str]) -> None:
    """Refuse a certificate combined with ``TLS=off``, since its owner expects its use."""
    if named:
        raise CommandError(
            f"{PREFIX}TLS=off contradicts {', '.join(named)}: nothing would be encrypted.",
            do=f"Leave out {PREFIX}TLS, or the certificate.",
        )


def of_home(home: Home, role: Role) -> Files:
    return Files(
        certificate=home.tls / f"{role}.pem", key=home.tls / f"{role}.key", authorities=home.tls / "authorities.pem"
    )


def check_stores(settings: Told) -> None:
    """Raise ``CommandError`` for an unverified remote store, with TLS or mounted keys."""
    if settings.tls is Tls.OFF or not (_is_strict(settings) or settings.tls is Tls.ON or _has_certificate(settings)):
        return
    for store in STORES:
        if why := unverified(str(getattr(settings, f"{store}_address", ""))):
            raise CommandError(
                f"{_variable(f'{store}_url')} names another machine, {why}: the store's identity is not verified.",
                do=f"{_remedy(store)}, or {_OFF}",
            )


def _is_strict(settings: Told) -> bool:
    return settings.tls is not Tls.OFF and any(getattr(settings, field, "") for field in MOUNTED)


def _has_certificate(settings: Told) -> bool:
    return any(getattr(settings, field, "") for field in FIELDS)


def _remedy(store: str) -> str:
    name = "Name the authority of its certificate in " + _variable(f"{store}_ca_file")
    return name if store == "database" else f"Use rediss:// ({name[0].lower()}{name[1:]}, if it is not public)"


def _variable(field: str) -> str:
    return f"{PREFIX}{field.upper()}"
