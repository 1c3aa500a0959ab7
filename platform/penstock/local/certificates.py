"""The certificates of a home that runs with `penstock up --tls`: its own authority, and one for each role.

Processes read them again on change, so each can be replaced while everything runs.
"""

import asyncio
from collections.abc import Callable

from penstock.apps.peers import files_of, of_home
from penstock.domain.clock import DAY_S, Clock
from penstock.settings import Settings
from penstock.settings.told import Home, Tls
from penstock.supervision.files import write_private
from penstock.telemetry import logs
from penstock.tls import authority
from penstock.tls.authority import KeyPair
from penstock.tls.identity import Identity, Role

TRUST_DOMAIN = "penstock"
AUTHORITY_DAYS = 3650.0
LASTS_DAYS = 30.0
RENEW_DAYS = 10.0
LOOK_EVERY_S = 3600.0


def ensure(settings: Settings, clock: Clock) -> int:
    """Make missing certificates and those that expire soon; return their number."""
    files_of(settings, Role.GATEWAY)
    if settings.tls is not Tls.ON or settings.tls_cert_file:
        return 0
    home, now = settings.paths, clock.now()
    home.tls.mkdir(mode=0o700, exist_ok=True)
    pair, made = _authority(home, now)
    for role in Role:
        files = of_home(home, role)
        if made or not _lasts(files.certificate.read_text, now):
            issued = authority.issue(pair, Identity(trust_domain=TRUST_DOMAIN, role=role), now=now, days=LASTS_DAYS)
            write_private(files.key, issued.key)
            write_private(files.certificate, issued.certificate)
            made += 1
    return made


def told(settings: Settings) -> str:
    if settings.tls is Tls.ON:
        return "mutual TLS"
    return "no TLS, though this home ran with it: --tls" if settings.paths.tls.exists() else ""


async def keep(settings: Settings, clock: Clock) -> None:
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        if made := ensure(settings, clock):
            logs.logger().info("certificates_renewed", count=made)


def _authority(home: Home, now: float) -> tuple[KeyPair, int]:
    certificate, key = of_home(home, Role.GATEWAY).authorities, home.tls / "authority.key"
    if key.exists() and _lasts(certificate.read_text, now):
        return KeyPair(certificate=certificate.read_text(), key=key.read_text()), 0
    pair = authority.make("Penstock, this home", now=now, days=AUTHORITY_DAYS)
    write_private(key, pair.key)
    write_private(certificate, pair.certificate)
    return pair, 1


def _lasts(read: Callable[[], str], now: float) -> bool:
    try:
        return authority.ends_at(read()) - now > RENEW_DAYS * DAY_S
    except (OSError, ValueError):
        return False
