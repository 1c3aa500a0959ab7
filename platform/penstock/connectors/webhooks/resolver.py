"""Names to addresses, for receivers that tenants have named: a name server that hangs delays deliveries of its tenant.

Trade-off: the system's resolver blocks a thread for each lookup, which can't be ended. 256 threads, two for a tenant:
128 tenants with name servers that hang would be needed to delay another's.
"""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Final

from penstock.domain.jobs.callback_url import Address

LOOKUPS: Final = 256
LOOKUPS_OF_TENANT: Final = 2


class Resolver:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(LOOKUPS, thread_name_prefix="webhook-names")
        self._tenants: dict[str, asyncio.Semaphore] = {}

    async def addresses(self, tenant: str, host: str) -> tuple[Address, ...]:
        """Of the name, or the address that it is; raises ``OSError``."""
        try:
            return (ip_address(host),)
        except ValueError:
            return await self._look_up(tenant, host)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _look_up(self, tenant: str, host: str) -> tuple[Address, ...]:
        gate = self._tenants.setdefault(tenant, asyncio.Semaphore(LOOKUPS_OF_TENANT))
        await gate.acquire()
        lookup = asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host)

        def ended(lookup: "asyncio.Future[tuple[Address, ...]]") -> None:
            gate.release()
            if not lookup.cancelled():
                lookup.exception()  # noted as seen: whoever waited may have left

        lookup.add_done_callback(ended)
        return await asyncio.shield(lookup)  # the thread goes on when its caller leaves, and holds the tenant's turn


def _look_up(host: str) -> tuple[Address, ...]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(ip_address(str(where[0])) for *_, where in found))
