"""Types of settings: each error is one sentence with the remedy, and never shows the value."""

import re
from urllib.parse import urlsplit

from penstock.domain.jobs import callback_url

LEVELS = ("debug", "info", "warning", "error")
_PORT = re.compile(r"[0-9]{1,5}")


def level(value: str) -> str:
    if value.lower() not in LEVELS:
        raise ValueError(f"is one of {', '.join(LEVELS)}")
    return value


def redis(value: str) -> str:
    if value and not value.startswith(("redis://", "rediss://", "unix://")):
        raise ValueError("begins with redis://, rediss:// or unix://")
    return ported(value)


def ported(value: str) -> str:
    """Return an address; its ports must be numbers."""
    hosts = urlsplit(value).netloc.rpartition("@")[2] if "://" in value else ""
    for host in hosts.split(","):
        _, colon, port = host.rpartition("]")[2].partition(":")
        if colon and port and not _PORT.fullmatch(port):
            raise ValueError(
                "has a port that is no number; write it as HOST:PORT (a password's special letters as %40)"
            )
    return value


def networks(value: str) -> str:
    try:
        callback_url.networks(value.split(","))
    except ValueError as error:
        raise ValueError("has a part that is no network; write them as 10.20.0.0/16,fd00::/8") from error
    return value


def proxy(value: str) -> str:
    if value and not value.startswith(("http://", "https://")):
        raise ValueError("begins with http:// or https://")
    return ported(value)


_ORIGIN = re.compile(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?|https?://\[[0-9a-f:.]+\](:[0-9]{1,5})?")


def origins(value: str) -> str:
    """Return a list of web origins in lower case, as browsers send them."""
    found = [one.strip().lower() for one in value.split(",") if one.strip()]
    if "*" in found and len(found) > 1:
        raise ValueError("is either * or a list of origins")
    if any(one != "*" and not _ORIGIN.fullmatch(one) for one in found):
        raise ValueError("is a list of origins, each as https://host or https://host:port, without a path; or *")
    return ",".join(found)


def kms_key(value: str) -> str:
    if value and not re.fullmatch(r"awskms:///\S+", value):
        raise ValueError("is awskms:///alias/NAME, or empty for a key derived from the platform's")
    return value


def bucket(value: str) -> str:
    if value and not re.match(r"s3://[^/]", value):
        raise ValueError("is s3://bucket/prefix, or empty for the folder in the home")
    return value
