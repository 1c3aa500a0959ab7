"""The HTTP/1.1 client on the token path: gateways reach workers through it.

It satisfies ``domain.serving.transport`` by shape and knows nothing of requests, tokens or events.
"""

from penstock.connectors.http.client import HttpClient, PoolLimits

__all__ = ["HttpClient", "PoolLimits"]
