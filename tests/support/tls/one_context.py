"""One TLS context for all clients of a test session without one of their own.

httpx reads all certificate authorities of the machine for each client, HTTP or not: 20 ms of computing for a short
request that otherwise takes less than one. A test that looked at a gate every 20 ms kept a core busy with that.
"""

import ssl
from functools import cache
from typing import Any

import httpx
from httpx._transports import default


@cache
def shared() -> ssl.SSLContext:
    """Return the context of a client that heeds nothing of its environment."""
    return httpx.create_ssl_context(trust_env=False)


def keep() -> None:
    """Let clients share it from now on."""
    vars(default)["create_ssl_context"] = context


def context(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:  # noqa: ANN401  as httpx has it
    """Return the shared context; a caller with authorities, a certificate or its environment's settings gets its
    own.
    """
    if verify is True and cert is None and not trust_env:
        return shared()
    return httpx.create_ssl_context(verify=verify, cert=cert, trust_env=trust_env)
