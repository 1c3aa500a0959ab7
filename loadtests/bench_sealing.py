"""What sealing costs: 2 KB of a tenant sealed and opened beside bare AES-GCM, 200 MB sealed as they are uploaded.

Run: ``make bench-safety``. One process, by its own CPU clock, best of some. Ends with 1 beyond a bound.
"""

import secrets
import sys
import time
from collections.abc import Callable

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from penstock.domain.ids import TenantId
from penstock.sealing.objects import ObjectSealer
from penstock.sealing.segments import KEY_ID_BYTES, Opening, Sealing, Subject, TenantKey

MOST_RATIO, LEAST_MB_S = 4.5, 100.0
"""The goal is 3 times: a key of its own for each object, expanded at both ends, is 1.9 times by itself."""
ROUNDS, CALLS = 15, 2_000
SMALL = secrets.token_bytes(2_000)
UPLOAD_MB = 200
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
    sys.exit(sealed / plain > MOST_RATIO or rate < LEAST_MB_S)


if __name__ == "__main__":
    main()
