"""``AnswerStore`` on Valkey or Redis: a claim, and a stream of sealed pieces per record.

Answers should have a server of their own: a day of them must not fill the limits' store. The server sees each record's
tenant, size and age, and no content.
"""

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import AsyncIterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import msgspec

from penstock.connectors.redis.wire import RETRY_S, Argument, ReplyError, Script, Value, Wire
from penstock.domain.errors import Conflict, StoreUnavailable
from penstock.domain.ids import TenantId
from penstock.domain.serving.idempotency import (
    ALIVE_S,
    KEEP_S,
    PIECE_BYTES,
    USUAL_QUOTA,
    AnswerQuota,
    Claim,
    Piece,
    RecordKey,
)
from penstock.sealing.keys import Keys
from penstock.sealing.segments import Opening, Sealing, Subject, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

_Read = list[tuple[bytes, list[tuple[bytes, list[bytes]]]]]

SHORTEST_WAIT_S = 0.02
LONGEST_WAIT_S = 0.4
"""Followers poll at the first interval, and less often the longer nothing arrives.

Blocking reads would delay all other calls on the connection.
"""
_PIECE = msgspec.msgpack.Decoder(Piece)
_OURS = "the first request with this idempotency key broke off; send it again"


def _script(name: str) -> str:
    folder = files("penstock.connectors.redis")
    return folder.joinpath("answers.lua").read_text() + folder.joinpath(name).read_text()


@dataclass(slots=True)
class _Writing:
    sealing: Sealing
    owner: str = field(default_factory=lambda: secrets.token_hex(8))
    is_begun: bool = False


class RedisAnswers:
    """Answers sealed under ``keys``, and fingerprints of requests under ``print_key``.

    Only the gateway that claimed a record writes it, even if it was suspended until its claim expired.
    """

    def __init__(self, wire: Wire, keys: Keys, print_key: bytes, quota: AnswerQuota = USUAL_QUOTA) -> None:
        self._wire = wire
        self._keys_of, self._print_key = keys, print_key
        self._quota = quota
        self._writing: dict[RecordKey, _Writing] = {}
        self._claim = Script(wire, _script("answer_claim.lua"))
        self._append = Script(wire, _script("answer_append.lua"))
        self._release = Script(wire, _script("answer_release.lua"))
        self._forget = Script(wire, _script("answer_forget.lua"))

    async def claim(self, key: RecordKey, fingerprint: str) -> Claim:
        writing, quota = _Writing(Sealing(await self._keys_of.newest(key.tenant), _subject(key))), self._quota
        told: list[Argument] = [
            _print_of(self._print_key, key, fingerprint),
            writing.owner,
            _ms(ALIVE_S),
            quota.max_bytes,
            quota.max_records,
        ]
        with _store():
            found = await self._claim(self._keys(key), [self._stem(key), key.name, *told])
        assert isinstance(found, bytes)  # noqa: S101  as the script says
        claim = Claim(found.decode())
        if claim is Claim.MINE:
            self._writing[key] = writing
        return claim

    async def has(self, key: RecordKey) -> bool:
        with _store():
            return bool(await self._wire.call("EXISTS", self._record(key, "claim")))

    async def append(self, key: RecordKey, piece: Piece, keep_s: float = KEEP_S) -> None:
        """Extend the expiry: briefly while the record grows, long once it is complete."""
        writing = self._writing.get(key)
        if writing is None:
            raise Conflict(_OURS)
        fields = _sealed(writing, piece) if piece != Piece() else []
        size_bytes = PIECE_BYTES + sum(map(len, fields))
        keep_ms = _ms(keep_s if piece.is_end else ALIVE_S)
        told: list[Argument] = [writing.owner, keep_ms, _ms(ALIVE_S), self._quota.max_bytes, size_bytes, *fields]
        with _store():
            is_kept = await self._append(self._keys(key), [self._stem(key), key.name, *told])
        if piece.is_end or not is_kept:
            self._writing.pop(key, None)
        if not is_kept:
            raise Conflict(
                "this request's claim on the idempotency key expired, or the tenant has no space left for the answer"
            )

    async def release(self, key: RecordKey) -> None:
        writing = self._writing.pop(key, None)
        if writing is not None:
            await self._drop(key, writing.owner)

    async def drop(self, key: RecordKey) -> None:
        await self._drop(key, "")

    async def forget(self, tenant: TenantId) -> int:
        dropped, stem = 0, self._stem(RecordKey(tenant, ""))
        with _store():
            while gone := await self._forget([f"{stem}index", f"{stem}sizes"], [stem]):
                assert isinstance(gone, int)  # noqa: S101  as the script says
                dropped += gone
        return dropped

    async def follow(self, key: RecordKey) -> AsyncIterator[Piece]:
        """A record that disappears is a broken answer; an unreadable record is deleted."""
        last, wait_s, number = b"0-0", SHORTEST_WAIT_S, 0
        opening: Opening | None = None
        while True:
            with _store():
                found = _entries(
                    await self._wire.call("XREAD", "COUNT", 256, "STREAMS", self._record(key, "body"), last)
                )
                alive = bool(found) or await self._wire.call("EXISTS", self._record(key, "claim"))
            if not alive:
                raise Conflict(_OURS)
            for entry, fields in found:
                last = entry
                try:
                    opening = opening or await self._opening(key, fields.get(b"s", b""))
                    piece = _opened(opening, number, fields)
                except (Unreadable, msgspec.MsgspecError, KeyError) as error:
                    await self._drop(key, "")
                    raise Conflict(_OURS) from error
                yield piece
                number += 1
                if piece.is_end:
                    return
            wait_s = SHORTEST_WAIT_S if found else min(2 * wait_s, LONGEST_WAIT_S)
            await asyncio.sleep(wait_s)

    async def _opening(self, key: RecordKey, header: bytes) -> Opening:
        secrets = await self._keys_of.opening(key.tenant, header)
        if not secrets:
            raise Unreadable
        return Opening(secrets[0], _subject(key), header)

    async def _drop(self, key: RecordKey, owner: str) -> None:
        with _store():
            await self._release(self._keys(key), [self._stem(key), key.name, owner])

    def _keys(self, key: RecordKey) -> list[str]:
        stem = self._stem(key)
        return [f"{stem}index", f"{stem}sizes"]

    def _stem(self, key: RecordKey) -> str:
        return f"penstock:answers:{{{key.tenant}}}:"

    def _record(self, key: RecordKey, part: str) -> str:
        return f"{self._stem(key)}{key.name}:{part}"


@contextmanager
def _store() -> "Iterator[None]":
    try:
        yield
    except ReplyError as error:
        raise StoreUnavailable("the store of idempotent answers refuses to work", retry_after_s=RETRY_S) from error


def _entries(read: Value) -> list[tuple[bytes, dict[bytes, bytes]]]:
    if not read:
        return []
    return [(entry, dict(list(pairwise(fields))[::2])) for entry, fields in cast("_Read", read)[0][1]]


def _sealed(writing: _Writing, piece: Piece) -> list[bytes]:
    sealed = writing.sealing.close(msgspec.msgpack.encode(piece), is_last=piece.is_end)
    fields = [b"e" if piece.is_end else b"p", sealed]
    if not writing.is_begun:
        writing.is_begun = True
        fields += [b"s", writing.sealing.header]
    return fields


def _opened(opening: Opening, number: int, fields: dict[bytes, bytes]) -> Piece:
    is_last = b"e" in fields
    return _PIECE.decode(opening.open(number, fields[b"e" if is_last else b"p"], is_last=is_last))


def _subject(key: RecordKey) -> Subject:
    return Subject("answers", key.tenant, key.name)


def _print_of(key: bytes, record: RecordKey, fingerprint: str) -> str:
    return hmac.new(key, f"print/{record.tenant}\x1f{fingerprint}".encode(), hashlib.sha256).hexdigest()


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
