"""Receipts of deletions, in the leading controller: what runners and a gateway have swept is signed and noted.

The receipt is stored with its audit row, once, whoever signs it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.audit.segments import Signer, covered
from penstock.domain.clock import Clock
from penstock.domain.errors import PenstockError
from penstock.domain.jobs.deletion import RECEIPT_TYPE, Deletion, DeletionStore, receipt_of
from penstock.domain.tenancy.audit import Act
from penstock.telemetry.logs import logger

EVERY_S = 1.0
AGAIN_S = 10.0
"""Seconds until a signer or database that refused is asked again."""
AT_ONCE = 16


@dataclass(slots=True, kw_only=True)
class Receipts:
    store: DeletionStore
    signer: Callable[[], Signer]
    """Opened at the first use, in a thread."""
    clock: Clock
    region: str
    acts: Callable[[], bool]
    """Whether this controller leads."""
    _opened: Signer | None = field(default=None, init=False)

    async def run(self) -> None:
        while True:
            wait_s = EVERY_S
            if self.acts():
                try:
                    await self.step()
                except PenstockError as error:
                    wait_s = AGAIN_S
                    logger().warning("receipt_not_signed", code=error.code, reason=error.message)
            await asyncio.sleep(wait_s)

    async def step(self) -> None:
        for one in await self.store.unsigned(AT_ONCE):
            await self._sign(one)

    async def _sign(self, one: Deletion) -> None:
        if self._opened is None:
            self._opened = await asyncio.to_thread(self.signer)
        text = receipt_of(one, self.region, self._opened.fingerprint)
        signature = await asyncio.to_thread(self._opened.sign, covered(text, RECEIPT_TYPE))
        act = Act(
            who="platform",
            what="privacy.deleted",
            target=str(one.id),
            at=self.clock.now(),
            detail=", ".join(f"{number} {name}" for name, number in one.counts._asdict().items() if number),
            tenant=one.scope.tenant,
        )
        await self.store.end(one.id, text, signature, act)
