r"""Which URLs and addresses the platform calls back: nothing inside its own network.

A URL is read strictly, since lenient readers disagree about its host (``http://127.0.0.1\@example.com/``) and
resolvers take more forms of an address than people do (``0x7f000001``). The addresses are judged at each connection: a
name may lead elsewhere by then. ``ipaddress.is_global`` is no guard: it passes NAT64 and 6to4 of loopback.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from penstock.domain.errors import InvalidField

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MOST_URL_CHARS = 2_048
HTTPS_PORT = 443

_INSIDE = tuple(
    IPv4Network(one)
    for one in """
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24
    192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
    """.split()
)
"""IPv4 networks that are not the public Internet (IANA's special-purpose registry, as of 2026)."""
_PUBLIC6 = IPv6Network("2000::/3")
_INSIDE6 = tuple(IPv6Network(one) for one in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
"""Parts of the public IPv6 space that embed IPv4 addresses, or are for protocols and documents."""

_URL = re.compile(r"([^:/?]*)://([^/?]*)(.*)", re.DOTALL)
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::([0-9]{1,5}))?", re.ASCII)
_TARGET = re.compile(r"(?:[/?][!\"$-\[\]-~]*)?", re.ASCII)  # visible ASCII, without # and backslash
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_MOST_NAME_CHARS = 253


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackUrl:
    scheme: str
    host: str
    """A name in ASCII, or an address without brackets."""
    port: int
    target: str

    @property
    def is_plain(self) -> bool:
        return self.scheme == "http"

    @property
    def authority(self) -> str:
        """The ``Host`` of a request: without the scheme's own port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (80 if self.is_plain else HTTPS_PORT) else f"{host}:{self.port}"

    @property
    def address(self) -> Address | None:
        return _address(self.host)


_UNLESS = ", or let the operator name your network in PENSTOCK_WEBHOOK_NETWORKS"


def networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Return the networks; ``ValueError`` names the first that is none."""
    return tuple(ip_network(text.strip()) for text in texts if text.strip())


def is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in one for one in _INSIDE)
    return address in _PUBLIC6 and not any(address in one for one in _INSIDE6)


def may_reach(addresses: Sequence[Address], url: CallbackUrl, allowed: Sequence[Network]) -> bool:
    """Tell whether all addresses are in allowed networks, or all are public and asked by TLS on port 443."""
    if not addresses:
        return False
    if all(any(one in network for network in allowed) for one in addresses):
        return True
    return not url.is_plain and url.port == HTTPS_PORT and all(map(is_public, addresses))


def parse(url: str, allowed: Sequence[Network] = ()) -> CallbackUrl:
    """Return the URL's parts; raise ``InvalidField`` with what to write instead.

    A name is judged when it is connected to; an address is already here.
    """
    if len(url) > MOST_URL_CHARS:
        raise _refused(f"is longer than {MOST_URL_CHARS} characters")
    scheme, authority, target = found.groups() if (found := _URL.fullmatch(url)) else ("", "", "")
    scheme, place = scheme.lower(), _AUTHORITY.fullmatch(authority.lower())
    if place is None or scheme not in {"http", "https"} or not _TARGET.fullmatch(target):
        raise _refused(_fault(scheme, authority))
    parsed = CallbackUrl(
        scheme=scheme,
        host=place[1].strip("[]").removesuffix("."),
        port=int(place[2] or (HTTPS_PORT if scheme == "https" else 80)),
        target=target if target.startswith("/") else f"/{target}",
    )
    _check(parsed, allowed)
    return parsed


def _check(url: CallbackUrl, allowed: Sequence[Network]) -> None:
    if url.address is None and not _is_name(url.host):
        raise _refused("has a host that is neither a name nor an address in its usual form")
    if not 0 < url.port < 1 << 16:
        raise _refused("has no valid port")
    if not allowed and (url.is_plain or url.port != HTTPS_PORT):
        raise _refused(f"must be https:// on port 443{_UNLESS}")
    if url.address is not None and not may_reach([url.address], url, allowed):
        raise _refused(f"leads to an address that callbacks may not reach: use one of the public Internet{_UNLESS}")


def _fault(scheme: str, authority: str) -> str:
    if scheme not in {"http", "https"}:
        return "must begin with https://"
    if "@" in authority:
        return "may have no user or password; check the webhook's signature instead"
    if not authority.isascii():
        return "has a host beyond ASCII; write it as its DNS name, which begins with xn--"
    return "is no URL in the form https://host/path, without spaces, backslashes and fragment"


def _is_name(host: str) -> bool:
    labels = host.split(".")
    is_number = labels[-1].isdigit() or labels[-1].startswith("0x")  # resolvers read 127.1 and 0x7f000001 as addresses
    return len(host) <= _MOST_NAME_CHARS and not is_number and all(map(_LABEL.fullmatch, labels))


def _address(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _refused(fault: str) -> InvalidField:
    return InvalidField(f"The webhook's URL {fault}.", param="url")
