"""The addresses of this home's gateway and controller, and the keys for calling them."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from penstock.clients.fleet import FleetWatch, StartPatience
from penstock.clients.operator import TIMEOUT_S as OPERATOR_S
from penstock.clients.operator import Operator
from penstock.domain.clock import Clock, SystemClock
from penstock.domain.command_error import CommandError
from penstock.settings import CALLERS_OWN, CONTROLLER_PORT, Settings
from penstock.settings.told import Tls
from penstock.supervision.listening import url_at

if TYPE_CHECKING:
    from penstock.tls.mutual import Mutual

TIMEOUT_S = 300.0


def operator(settings: Settings, *, timeout_s: float = OPERATOR_S) -> Operator:
    if settings.url and not settings.key:  # the operators' key is for this home's controller alone
        raise CommandError(
            f"There is no key to show at {settings.url}.", do="Give an admin's or auditor's with --key (PENSTOCK_KEY)."
        )
    url = controller_address(settings)
    return Operator(url, reading_key(settings), operator_tls(settings, url), timeout_s=timeout_s)


def reading_key(settings: Settings) -> str:
    return settings.key or _admin_key(settings)


def _admin_key(settings: Settings) -> str:
    paths = settings.paths
    return _read(paths.admin_key, f"There is no admin key in this home. ({paths.root})")


def controller_address(settings: Settings) -> str:
    given, file = settings.url or settings.controller_url, settings.paths.controller_address
    if given:
        return given.rstrip("/")
    if settings.key and not file.exists():
        return url_at("127.0.0.1", CONTROLLER_PORT, secure=bool(settings.tls_cert_file))
    return _read(file, f"The controller of this home is not running. ({settings.paths.root})")


def fleet(settings: Settings, clock: Clock) -> FleetWatch:
    own = settings.model_copy(update=dict.fromkeys(CALLERS_OWN, ""))
    waiting = StartPatience(lease_s=settings.lease_s, most_s=settings.start_within_s, logs=settings.paths.logs)
    return FleetWatch(lambda: operator(own), clock, waiting)


def gateway_address(settings: Settings) -> str:
    try:
        return settings.paths.gateway_address.read_text().strip()
    except OSError:
        return f"http://{settings.host}:{settings.port}"


@contextmanager
def gateway(settings: Settings, key: str = "", url: str = "") -> Iterator[httpx.Client]:
    """Call with this key, or the demo tenant's; ``CommandError`` without a gateway."""
    url = url.rstrip("/") or gateway_address(settings)
    headers = {"authorization": f"Bearer {key or _demo_key(settings)}"}
    verify = url.startswith("https:")
    try:
        with httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT_S, trust_env=False, verify=verify) as http:
            yield http
    except httpx.ConnectError as error:
        raise CommandError(
            f"No gateway answers at {url}.",
            do="Start the platform with `penstock up`, or name its folder in PENSTOCK_HOME.",
        ) from error


def _demo_key(settings: Settings) -> str:
    try:
        return settings.paths.demo_key.read_text().strip()
    except OSError as error:
        raise CommandError(
            f"There is no demo key in {settings.paths.root}.",
            do="`penstock up` makes one at its first start; or give a key with --key.",
        ) from error


def operator_tls(settings: Settings, url: str) -> ssl.SSLContext | None:
    from penstock.tls.identity import Role

    own = operator_certificate(settings, url)
    return own.client(Role.CONTROLLER) if own else None


def operator_certificate(settings: Settings, url: str) -> "Mutual | None":
    if not url.startswith("https:"):
        return None
    from penstock.apps.peers import files_of, of_home
    from penstock.tls.identity import Role
    from penstock.tls.mutual import Mutual

    files = files_of(settings.model_copy(update={"tls": Tls.AUTO}), Role.OPERATOR)
    own = of_home(settings.paths, Role.OPERATOR)
    if files is None and not settings.url and own.certificate.exists():
        files = own
    return Mutual(files, Role.OPERATOR, SystemClock()) if files else None


def _read(file: Path, what: str) -> str:
    try:
        return file.read_text().strip()
    except OSError as error:
        raise CommandError(what, do="Start the platform with `penstock up`, or name its PENSTOCK_HOME.") from error
