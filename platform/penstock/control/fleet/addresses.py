"""Checks the addresses that workers report: gateways send prompts there, so an address must lead to that worker.
Pure.

A worker may report the address its heartbeat comes from; on one machine, any loopback address. One that listens on all
addresses reports ``0.0.0.0`` or ``::``, which is replaced by the sender's. If a proxy changes the sender's address,
operators name the workers' networks and domains.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from penstock.domain.errors import Forbidden

Address = IPv4Address | IPv6Address
_URL = re.compile(r"(https?)://(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]+)):([0-9]{1,5})/?")
_PORTS = range(1, 1 << 16)
_REFUSAL = "a worker's address is the one that it reports from, or one of PENSTOCK_WORKER_ADDRESSES"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerAddresses:
    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    domains: tuple[str, ...] = ()
    secure: bool = False
    """Gateways connect only to ``https`` addresses."""

    @classmethod
    def of(cls, named: Iterable[str], *, secure: bool = False) -> "WorkerAddresses":
        """Parse networks (``10.0.0.0/8``) and domains; ``ValueError`` for a malformed network."""
        named = tuple(one.strip().strip(".").lower() for one in named if one.strip())
        domains = tuple(one for one in named if not _is_network(one))
        networks = tuple(ip_network(one) for one in named if _is_network(one))
        return cls(networks=networks, domains=domains, secure=secure)

    def reached_at(self, url: str, peer: str) -> str:
        """Raises ``Forbidden`` unless gateways may reach the worker there."""
        match = _URL.fullmatch(url)
        if match is None or int(match[4]) not in _PORTS:
            raise Forbidden("a worker's address must be http://HOST:PORT, without a path", param="url")
        scheme, six, other, port = match.groups()
        if self.secure and scheme != "https":
            raise Forbidden("a worker of this platform is at https://: this one has no certificate", param="url")
        host, sender = (six or other).lower(), _address(peer)
        address = _address(host)
        if address is None:
            if not (host == "localhost" and _is_loopback(sender)) and not self._has_name(host):
                raise Forbidden(_REFUSAL, param="url")
            return url
        if address.is_unspecified and sender is not None:
            return f"{scheme}://[{sender}]:{port}" if sender.version == 6 else f"{scheme}://{sender}:{port}"  # noqa: PLR2004
        if address != sender and not (_is_loopback(address) and _is_loopback(sender)) and not self._has(address):
            raise Forbidden(_REFUSAL, param="url")
        return url

    def _has(self, address: Address) -> bool:
        return not address.is_link_local and any(address in network for network in self.networks)

    def _has_name(self, name: str) -> bool:
        return any(name == domain or name.endswith("." + domain) for domain in self.domains)


def _is_network(named: str) -> bool:
    return "/" in named or _address(named) is not None


def _address(text: str) -> Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _is_loopback(address: Address | None) -> bool:
    return address is not None and address.is_loopback
