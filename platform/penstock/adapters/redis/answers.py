"""``domain.idempotency.AnswerStore`` on Valkey or Redis: a hash for the claim, a stream for the answer's pieces."""

from collections.abc import AsyncIterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from penstock.domain.errors import Conflict, StoreUnavailable
from penstock.domain.idempotency import ALIVE_S, KEEP_S, Claim, Piece, RecordKey

if TYPE_CHECKING:
    from collections.abc import Iterator

CLAIM = """
local found = redis.call('GET', KEYS[1])
if not found then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  redis.call('DEL', KEYS[2])
  return 'mine'
end
if found == ARGV[1] then return 'same' end
return 'other'
"""

_Read = list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes]]]]]
_Field = bytes | bytearray | memoryview | str | int | float

WAIT_MS = 500
"""How long one read waits for the next piece; between reads a dead owner is noticed."""


class RedisAnswers:
    """Answers in Redis. ``prefix`` keeps platforms apart. Use a client whose time-out exceeds ``WAIT_MS``."""

    def __init__(self, redis: Redis, *, prefix: str = "penstock") -> None:
        """Take a connected client."""
        self._redis = redis
        self._prefix = prefix
        self._claim = redis.register_script(CLAIM)

    async def claim(self, key: RecordKey, fingerprint: str) -> Claim:
        """Open a record for this body, or tell what is there."""
        with _store():
            found = await self._claim(keys=list(self._keys(key)), args=[fingerprint, int(ALIVE_S * 1000)])
        return Claim(found.decode())

    async def append(self, key: RecordKey, piece: Piece) -> None:
        """Add to the record and keep it: shortly while it grows, long once it is complete."""
        claim, body = self._keys(key)
        keep_ms = int((KEEP_S if piece.is_end else ALIVE_S) * 1000)
        with _store():
            async with self._redis.pipeline(transaction=True) as batch:
                if piece != Piece():
                    batch.xadd(body, _fields(piece))
                batch.pexpire(claim, keep_ms)
                batch.pexpire(body, keep_ms)
                await batch.execute()

    async def release(self, key: RecordKey) -> None:
        """Forget the record."""
        with _store():
            await self._redis.delete(*self._keys(key))

    async def follow(self, key: RecordKey) -> AsyncIterator[Piece]:
        """Yield the record's pieces as they come; a record that disappears broke off."""
        claim, body = self._keys(key)
        last = b"0-0"
        while True:
            with _store():
                found = cast("_Read", await self._redis.xread({body: last}, count=256, block=WAIT_MS))
                alive = bool(found) or await self._redis.exists(claim)
            if not alive:
                raise Conflict("the first request with this idempotency key broke off; send it again")
            for entry, fields in found[0][1] if found else ():
                last = entry
                piece = _piece(fields)
                yield piece
                if piece.is_end:
                    return

    def _keys(self, key: RecordKey) -> tuple[str, str]:
        tag = f"{self._prefix}:answer:{{{key}}}"
        return f"{tag}:claim", f"{tag}:body"


@contextmanager
def _store() -> "Iterator[None]":
    try:
        yield
    except RedisError as error:
        raise StoreUnavailable("the store of idempotent answers does not answer") from error


def _fields(piece: Piece) -> "dict[_Field, _Field]":
    return {"s": piece.status, "t": piece.content_type, "d": piece.data, "e": int(piece.is_end)}


def _piece(fields: dict[bytes, bytes]) -> Piece:
    return Piece(
        status=int(fields[b"s"]),
        content_type=fields[b"t"].decode(),
        data=fields[b"d"],
        is_end=fields[b"e"] == b"1",
    )
