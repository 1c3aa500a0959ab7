"""Where the gateway of this home is and with which key to speak to it."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from penstock.apps.settings import Settings
from penstock.domain.command_error import CommandError

TIMEOUT_S = 300.0


def address(settings: Settings) -> str:
    """Return the gateway's address: the running platform's, else what the settings say."""
    try:
        return settings.paths.gateway_address.read_text().strip()
    except OSError:
        return f"http://{settings.host}:{settings.port}"


@contextmanager
def connect(settings: Settings, key: str = "") -> Iterator[httpx.Client]:
    """Yield a client with this key, or with the demo tenant's; explain a gateway that is not there."""
    url = address(settings)
    headers = {"authorization": f"Bearer {key or _demo_key(settings)}"}
    try:
        with httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT_S, trust_env=False) as http:
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
