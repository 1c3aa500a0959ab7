"""What sealing costs: 2 KB of a tenant sealed and opened beside bare AES-GCM, 200 MB sealed as they are uploaded, and
an answer under an idempotency key, kept in Redis and repeated, beside the format before.

Run: ``make bench-safety``. One process, by its own CPU clock, best of some; answers in turns. Ends with 1 beyond a
bound.
"""

import asyncio
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from penstock.connectors.redis import answers as redis_answers
from penstock.connectors.redis.answers import RedisAnswers
from penstock.connectors.redis.wire import Wire
from penstock.domain.ids import TenantId
from penstock.domain.serving.idempotency import AnswerQuota, Piece, RecordKey
from penstock.sealing.objects import ObjectSealer
from penstock.sealing.segments import (
    FORMER,
    KEY_ID_BYTES,
    SALT_BYTES,
    Opening,
    Sealing,
    Subject,
    TenantKey,
    _former,
)
from tests.support.sealing import FixedKeys
from tests.support.stores.redis_server import RedisServer

MOST_RATIO, LEAST_MB_S, MOST_MORE = 4.5, 100.0, 1.05
"""The goal is 3 times: a key of its own for each object, expanded at both ends, is 1.9 times by itself."""
ROUNDS, CALLS = 15, 2_000
SMALL = secrets.token_bytes(2_000)
UPLOAD_MB = 200
TURNS, ANSWERS = 20, 100
PIECE = secrets.token_bytes(1 << 20)
KEY = TenantKey(secrets.token_bytes(KEY_ID_BYTES), secrets.token_bytes(32))
SUBJECT = Subject("answers", TenantId("acme"), "a-key")


def least_us(act: Callable[[], object]) -> float:
    def cost() -> float:
        began = time.process_time()
        for _ in range(CALLS):
            act()
        return time.process_time() - began

    return 1e6 * min(cost() for _ in range(ROUNDS)) / CALLS


def bare() -> Callable[[], bytes]:
    cipher = AESGCM(KEY.secret)

    def act() -> bytes:
        nonce = secrets.token_bytes(12)
        return cipher.decrypt(nonce, cipher.encrypt(nonce, SMALL, None), None)

    return act


def expanded() -> bytes:
    """Seal and open under a key that is new to either end, and derive none."""
    nonce, key = secrets.token_bytes(12), KEY.secret
    return AESGCM(key).decrypt(nonce, AESGCM(key).encrypt(nonce, SMALL, None), None)


def ours() -> bytes:
    sealing = Sealing(KEY, SUBJECT)
    sealed = sealing.close(SMALL, is_last=True)
    return Opening(KEY.secret, SUBJECT, sealing.header).open(0, sealed, is_last=True)


class Former(Sealing):
    """Seals as the release before did: under a key derived by HMAC, without associated data."""

    __slots__ = ()

    def __init__(self, key: TenantKey, subject: Subject) -> None:
        self.header = FORMER + secrets.token_bytes(SALT_BYTES)
        self._cipher, self._bound = _former(key.secret, subject, self.header)
        self._number = 0


async def repeated(store: RedisAnswers, number: int) -> None:
    """Claim a record, keep an answer in it, repeat it."""
    key = RecordKey(SUBJECT.tenant, f"k{number}")
    await store.claim(key, "print")
    for piece in (Piece(status=200, content_type="application/json"), Piece(data=SMALL), Piece(is_end=True)):
        await store.append(key, piece)
    _ = [piece async for piece in store.follow(key)]


async def answer_us(url: str) -> tuple[list[float], list[float]]:
    """Return microseconds of CPU for an answer, in this format and in the former one, in turns."""
    wire = Wire(url, patience_s=5.0)
    quota = AnswerQuota(max_bytes=1 << 30, max_records=1_000_000)
    store, us = RedisAnswers(wire, FixedKeys(KEY.secret), KEY.secret, quota), (list[float](), list[float]())
    for turn in range(2 * TURNS):
        setattr(redis_answers, "Sealing", Former if turn % 2 else Sealing)  # noqa: B010  mypy would have it stay
        began = time.process_time()
        for number in range(ANSWERS):
            await repeated(store, turn * ANSWERS + number)
        us[turn % 2].append((time.process_time() - began) / ANSWERS * 1e6)
    await wire.close()
    return us


def upload_mb_s() -> float:
    began, sealer = time.process_time(), ObjectSealer(KEY, SUBJECT)
    for _ in range(UPLOAD_MB):
        sealer.write(PIECE)
    sealer.finish()
    return UPLOAD_MB / (time.process_time() - began)


def main() -> None:
    plain, fresh, sealed = (least_us(act) for act in (bare(), expanded, ours))
    rate = max(upload_mb_s() for _ in range(3))
    print(f"2 KB sealed and opened: {sealed:.1f} µs, bare AES-GCM {plain:.1f} µs: {sealed / plain:.1f} times")
    print(f"of which keys expanded anew: {fresh:.1f} µs, {fresh / plain:.1f} times")
    print(f"200 MB sealed as they come: {rate:.0f} MB/s")
    with tempfile.TemporaryDirectory() as folder, RedisServer(Path(folder)) as server:
        kept, former = asyncio.run(answer_us(server.url))
    more = statistics.median(one / other for one, other in zip(kept, former, strict=True))
    print(
        f"an idempotent answer of 2 KB: {min(kept):.0f} µs, in the former format {min(former):.0f} µs: {more:.3f} times"
    )
    sys.exit(sealed / plain > MOST_RATIO or rate < LEAST_MB_S or more > MOST_MORE)


if __name__ == "__main__":
    main()
