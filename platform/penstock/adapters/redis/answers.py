"""``domain.idempotency.AnswerStore`` on Valkey or Redis: a hash for the claim, a stream for the answer's pieces."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, cast

from penstock.adapters.redis.wire import RETRY_S, Argument, ReplyError, Script, Value, Wire
from penstock.domain.errors import Conflict, StoreUnavailable
from penstock.domain.idempotency import ALIVE_S, KEEP_S, Claim, Piece, RecordKey

if TYPE_CHECKING:
    from collections.abc import Iterator

CLAIM = """
local found = redis.call('GET', KEYS[1])
if not found then
  redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2], 'PX', ARGV[3])
  redis.call('DEL', KEYS[2])
  return 'mine'
end
if found:sub(1, #ARGV[1] + 1) ~= ARGV[1] .. ' ' then return 'other' end
if redis.call('PTTL', KEYS[1]) > tonumber(ARGV[3]) then return 'same' end
return 'growing'
"""

APPEND = """
local found = redis.call('GET', KEYS[1])
if not found or found:sub(-#ARGV[1]) ~= ARGV[1] then return 0 end
if #ARGV > 2 then redis.call('XADD', KEYS[2], '*', unpack(ARGV, 3)) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1
"""

RELEASE = """
local found = redis.call('GET', KEYS[1])
if found and found:sub(-#ARGV[1]) == ARGV[1] then redis.call('DEL', KEYS[1], KEYS[2]) end
return 1
"""

_Read = list[tuple[bytes, list[tuple[bytes, list[bytes]]]]]

SHORTEST_WAIT_S = 0.02
LONGEST_WAIT_S = 0.4
"""Followers ask again after the first of these, and less often the longer nothing comes.

Blocking reads would hold up everybody else on the connection.
"""


class RedisAnswers:
    """Answers in Redis. ``prefix`` keeps platforms apart.

    A record is its claimant's alone: a gateway that was frozen until its claim lapsed can't write into another's.
    """

    def __init__(self, wire: Wire, *, prefix: str = "penstock") -> None:
        """Take a connection of its own: an answer's bytes must not stand before somebody's decision."""
        self._wire = wire
        self._prefix = prefix
        self._owner = secrets.token_hex(8)
        self._claim = Script(wire, CLAIM)
        self._append = Script(wire, APPEND)
        self._release = Script(wire, RELEASE)

    async def claim(self, key: RecordKey, fingerprint: str) -> Claim:
        """Open a record for this body, or tell what is there."""
        with _store():
            found = await self._claim(self._keys(key), [fingerprint, self._owner, int(ALIVE_S * 1000)])
        assert isinstance(found, bytes)  # noqa: S101  as the script says
        return Claim(found.decode())

    async def append(self, key: RecordKey, piece: Piece) -> None:
        """Add to the record and keep it: shortly while it grows, long once it is complete."""
        keep_ms = int((KEEP_S if piece.is_end else ALIVE_S) * 1000)
        fields = _fields(piece) if piece != Piece() else []
        with _store():
            is_ours = await self._append(self._keys(key), [self._owner, keep_ms, *fields])
        if not is_ours:
            raise Conflict("the claim on this idempotency key lapsed")

    async def release(self, key: RecordKey) -> None:
        """Forget the record."""
        with _store():
            await self._release(self._keys(key), [self._owner])

    async def follow(self, key: RecordKey) -> AsyncIterator[Piece]:
        """Yield the record's pieces as they come; a record that disappears broke off."""
        claim, body = self._keys(key)
        last, wait_s = b"0-0", SHORTEST_WAIT_S
        while True:
            with _store():
                found = _entries(await self._wire.call("XREAD", "COUNT", 256, "STREAMS", body, last))
                alive = bool(found) or await self._wire.call("EXISTS", claim)
            if not alive:
                raise Conflict("the first request with this idempotency key broke off; send it again")
            for entry, fields in found:
                last = entry
                piece = _piece(fields)
                yield piece
                if piece.is_end:
                    return
            wait_s = SHORTEST_WAIT_S if found else min(2 * wait_s, LONGEST_WAIT_S)
            await asyncio.sleep(wait_s)

    def _keys(self, key: RecordKey) -> list[str]:
        tag = f"{self._prefix}:answer:{{{key}}}"
        return [f"{tag}:claim", f"{tag}:body"]


@contextmanager
def _store() -> "Iterator[None]":
    try:
        yield
    except ReplyError as error:
        raise StoreUnavailable("the store of idempotent answers refuses to work", retry_after_s=RETRY_S) from error


def _entries(read: Value) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """Return a stream's entries: the answer names each stream, and a stream's fields come flat."""
    if not read:
        return []
    return [(entry, dict(list(pairwise(fields))[::2])) for entry, fields in cast("_Read", read)[0][1]]


def _fields(piece: Piece) -> list[Argument]:
    return ["s", piece.status, "t", piece.content_type, "v", piece.version, "d", piece.data, "e", int(piece.is_end)]


def _piece(fields: dict[bytes, bytes]) -> Piece:
    return Piece(
        status=int(fields[b"s"]),
        content_type=fields[b"t"].decode(),
        version=fields[b"v"].decode(),
        data=fields[b"d"],
        is_end=fields[b"e"] == b"1",
    )
