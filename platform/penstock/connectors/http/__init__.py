"""The HTTP/1.1 client on the token path: gateways reach workers through it.

It satisfies the port ``domain.serving.transport``.
"""
