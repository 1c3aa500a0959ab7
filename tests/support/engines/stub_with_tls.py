"""The stub engine at two ports, in the clear and with a certificate: what TLS costs is measured side by side.

``python -m tests.support.engines.stub_with_tls CERTIFICATE KEY AUTHORITIES`` prints ``{"url": ..., "tls_url": ...}``.
"""

import asyncio
import json
import ssl
import sys

import uvloop

from tests.support.engines.stub import StubEngine, _Connection


def context(certificate: str, key: str, authorities: str) -> ssl.SSLContext:
    """Return TLS 1.3 that asks for a certificate of the same authority."""
    found = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authorities)
    found.minimum_version, found.verify_mode = ssl.TLSVersion.TLSv1_3, ssl.CERT_REQUIRED
    found.load_cert_chain(certificate, key)
    return found


async def serve(secure: ssl.SSLContext) -> None:
    async with StubEngine() as stub:
        loop = asyncio.get_running_loop()
        other = await loop.create_server(lambda: _Connection(stub), "127.0.0.1", 0, backlog=1024, ssl=secure)
        told = {"url": stub.url, "tls_url": f"https://127.0.0.1:{other.sockets[0].getsockname()[1]}"}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
        await other.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(context(*sys.argv[1:])))
