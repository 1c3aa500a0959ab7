"""Access to records: a key sees its own requests, a tenant's admins and auditors the tenant's, operators all.

A hidden record is answered as unknown. A look-up reads files, so each key has one at a time.
"""

import re
from typing import Protocol

from penstock.domain.errors import OverLimit, UnknownRequest
from penstock.domain.ids import KINDS, KeyId
from penstock.domain.serving.request_record import RequestRecord
from penstock.domain.tenancy.tenant import OPERATORS, Principal, Role

_ID = re.compile(rf"(?:{KINDS}(?=.))?([A-Za-z0-9_.-]{{1,128}})")
_DEFERRED = re.compile(r"(?:job|resp|batch_req)_[0-9a-f]{8,64}")
"""A job, background response or batch's line: its requests have its id with a number behind."""
AGAIN_S = 1.0


class KeptRecords(Protocol):
    async def find(self, request_id: str) -> RequestRecord | None: ...

    async def last_attempt(self, job: str) -> RequestRecord | None: ...


class RecordLookup:
    def __init__(self, *kept: KeptRecords) -> None:
        self._kept = kept
        self._under_way: set[KeyId] = set()

    async def find(self, who: Principal, request_id: str) -> RequestRecord:
        """Raises ``UnknownRequest``, or ``OverLimit`` while the key's last look-up runs."""
        named = _ID.fullmatch(request_id)
        if named is None:
            raise UnknownRequest
        if who.key in self._under_way:
            raise OverLimit("a key asks for one record at a time", retry_after_s=AGAIN_S)
        self._under_way.add(who.key)
        try:
            record = await self._found(request_id)
            if record is None and named[1] != request_id:
                record = await self._found(named[1])
            if record is None and _DEFERRED.fullmatch(request_id):
                record = await self._last_attempt(request_id)
        finally:
            self._under_way.discard(who.key)
        if record is None or not may_see(who, record):
            raise UnknownRequest
        return record

    async def _found(self, request_id: str) -> RequestRecord | None:
        for one in self._kept:
            if (record := await one.find(request_id)) is not None:
                return record
        return None

    async def _last_attempt(self, job: str) -> RequestRecord | None:
        for one in self._kept:
            if (record := await one.last_attempt(job)) is not None:
                return record
        return None


def may_see(who: Principal, record: RequestRecord) -> bool:
    if who.role is Role.INFER:
        return record.key == who.key and record.tenant == who.tenant
    return who.tenant in {OPERATORS, record.tenant}
