"""Whether the connection to a store on another machine is encrypted and its server verified, by the store's address."""

import ipaddress
import re
from urllib.parse import parse_qs, urlsplit

_VERIFIED = frozenset({"verify-full"})


def unverified(address: str) -> str:
    """The fault in a remote store's connection; empty for a verified or local one."""
    if address.startswith("redis"):
        is_safe = address.startswith("rediss:") or _is_here(urlsplit(address).hostname or "")
        return "" if is_safe else "in the clear"
    if not address or address.startswith("unix:"):
        return ""
    hosts, mode = _postgres(address)
    return "" if mode in _VERIFIED or all(map(_is_here, hosts)) else f"with sslmode={mode or 'prefer'}"


def _postgres(address: str) -> tuple[list[str], str]:
    """Hosts and TLS mode of a URL, or of words such as ``host=db user=u``."""
    if "://" not in address:
        words = dict(re.findall(r"(\w+)\s*=\s*(\S+)", address))
        return words.get("host", "").split(","), words.get("sslmode", "")
    parts = urlsplit(address)
    parameters = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    hosts = parts.netloc.rpartition("@")[2] or parameters.get("host", "")
    return [_without_port(host) for host in hosts.split(",")], parameters.get("sslmode", "")


def _without_port(host: str) -> str:
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _is_here(host: str) -> bool:
    if not host or host.startswith("/") or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
