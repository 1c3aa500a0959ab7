"""The HTTP/1.1 client on the token path: gateways reach workers through it.

It satisfies the dispatcher's ``Workers`` port by shape and knows nothing of requests, tokens or events.
"""

from penstock.connectors.http.client import HttpClient, PoolLimits
from penstock.connectors.http.connection import Exchange, Receiver

__all__ = ["Exchange", "HttpClient", "PoolLimits", "Receiver"]
