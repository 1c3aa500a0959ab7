"""Which address a worker may report as its own: gateways send it prompts, so it must lead to that worker alone. Pure.

It is the address that its heartbeat comes from; on one machine, any loopback address. A worker that listens on all its
addresses says ``0.0.0.0`` (or ``::``) and is found where it reports from. Where something between worker and controller
changes the sender's address, operators name the networks and domains that workers have.

Trade-off: names are believed only inside a domain that operators named, since whoever resolves them later may be told
something else. Link-local addresses, where clouds keep their metadata, are in no network.
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
    """What is believed beside the sender's own address."""

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    domains: tuple[str, ...] = ()
    secure: bool = False
    """Gateways speak to ``https`` addresses alone."""

    @classmethod
    def of(cls, named: Iterable[str], *, secure: bool = False) -> "WorkerAddresses":
        """Take networks (``10.0.0.0/8``) and domains (``svc.cluster.local``); ``ValueError`` for a damaged network."""
        named = tuple(one.strip().strip(".").lower() for one in named if one.strip())
        domains = tuple(one for one in named if not _is_network(one))
        networks = tuple(ip_network(one) for one in named if _is_network(one))
        return cls(networks=networks, domains=domains, secure=secure)

    def reached_at(self, url: str, peer: str) -> str:
        """Return where gateways reach a worker that reports ``url`` from ``peer``, or raise ``Forbidden``."""
        match = _URL.fullmatch(url)
        if match is None or int(match[4]) not in _PORTS:
            raise Forbidden("a worker's address is http://HOST:PORT and no more", param="url")
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
    """Return the address, an IPv4 one where it stands inside an IPv6 one; None for a name."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _is_loopback(address: Address | None) -> bool:
    return address is not None and address.is_loopback
