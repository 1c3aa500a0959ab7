"""Asks gateways for a request's record: each stores its own, and a name may have many addresses."""

import socket
from collections.abc import Iterable
from urllib.parse import quote, urlsplit

import httpx

from penstock.clients.chat import refused
from penstock.clients.operator import Json
from penstock.domain.command_error import CommandError

TIMEOUT_S = 30.0
_START = "Start the platform with `penstock up`, or give the gateways' addresses with --gateway."


def find(gateways: Iterable[str], key: str, request_id: str) -> Json:
    """Return the first gateway's record of a request, or raise ``CommandError`` if none has one."""
    problem = CommandError("There is no gateway to ask.", do="Give one with --gateway.")
    for url in dict.fromkeys(one for gateway in gateways for one in each(gateway)):
        try:
            answer = httpx.get(
                f"{url}/v1/requests/{quote(request_id, safe='')}",
                headers={"authorization": f"Bearer {key}"},
                timeout=TIMEOUT_S,
                trust_env=False,
                verify=url.startswith("https:"),
            )
        except httpx.HTTPError as error:
            problem = CommandError(f"No gateway answers at {url} ({type(error).__name__}).", do=_START)
            continue
        if answer.is_success:
            found: Json = answer.json()
            return found
        problem = refused(answer)
    raise problem


def each(url: str) -> list[str]:
    """Return a gateway's addresses: with plain HTTP all of its name, as a headless service has them."""
    parts = urlsplit(url.rstrip("/"))
    if parts.scheme != "http" or not parts.hostname:
        return [url.rstrip("/")]
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port or 80, proto=socket.IPPROTO_TCP)
    except OSError:
        return [url.rstrip("/")]
    hosts = dict.fromkeys(str(address[0]) for *_, address in found)
    return [f"http://{f'[{host}]' if ':' in host else host}:{parts.port or 80}" for host in hosts]
