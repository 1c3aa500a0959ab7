"""Receipts of deletions, in the leading controller: what runners and a gateway have swept is signed and noted.

The receipt is stored with its audit row, once, though two controllers may sign it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from penstock.audit.segments import Signer, covered
from penstock.domain.clock import Clock
from penstock.domain.errors import PenstockError
from penstock.domain.jobs.deletion import Deletion, DeletionStore
from penstock.domain.tenancy.audit import Act
from penstock.telemetry.logs import logger

EVERY_S = 1.0
AGAIN_S = 10.0
"""Seconds until a signer or database that refused is asked again."""
AT_ONCE = 16
FORMAT = 1
RECEIPT_TYPE = b"application/vnd.penstock.deletion-receipt+json"


class Receipt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is signed: ``user_mark`` is a keyed digest, ``key`` the signing key's fingerprint."""

    format: int = FORMAT
    deletion: int
    tenant: str
    request: str
    user_mark: str
    before: float
    until: float
    asked_by: str
    asked_at: float
    swept_at: float
    counts: dict[str, int]
    training_use: str
    region: str
    key: str


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
                except Exception as error:  # noqa: BLE001  a bug here must not end the controller
                    wait_s = AGAIN_S
                    logger().error("receipt_not_signed", error_type=type(error).__name__, reason=str(error))
            await asyncio.sleep(wait_s)

    async def step(self) -> None:
        for one in await self.store.unsigned(AT_ONCE):
            await self._sign(one)

    async def _sign(self, one: Deletion) -> None:
        if self._opened is None:
            self._opened = await asyncio.to_thread(self.signer)
        text = receipt_of(one, self.region, self._opened.fingerprint)
        signature = await asyncio.to_thread(self._opened.sign, covered(text.encode(), RECEIPT_TYPE))
        act = Act(
            who="platform",
            what="privacy.deleted",
            target=str(one.id),
            at=self.clock.now(),
            detail=", ".join(f"{number} {name}" for name, number in one.counts._asdict().items() if number),
            tenant=one.scope.tenant,
        )
        await self.store.end(one.id, text, signature, act)


def receipt_of(one: Deletion, region: str, key: str) -> str:
    receipt = Receipt(
        deletion=one.id,
        **one.scope._asdict(),
        until=one.until,
        asked_by=one.asked_by,
        asked_at=one.asked_at,
        swept_at=one.swept_at,
        counts=one.counts._asdict(),
        training_use="yes" if one.training_use else "no",
        region=region,
        key=key,
    )
    return msgspec.json.encode(receipt).decode()
