"""Sealed objects: what went in comes out in any range, and nothing else does."""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.ids import TenantId
from penstock.sealing.objects import SEGMENT_BYTES, ObjectOpener, ObjectSealer
from penstock.sealing.segments import (
    FORMAT,
    FORMER,
    HEADER_BYTES,
    KEY_ID_BYTES,
    TAG_BYTES,
    Opening,
    Subject,
    TenantKey,
    Unreadable,
    header_of,
)

KEY, OTHER = b"k" * 32, b"o" * 32
SUBJECT = Subject("payloads", TenantId("acme"), "file/file-1")
SEALED_BYTES = SEGMENT_BYTES + TAG_BYTES
SIZES = st.one_of(
    st.integers(0, 3 * SEGMENT_BYTES + 5),
    st.sampled_from([0, 1, SEGMENT_BYTES - 1, SEGMENT_BYTES, SEGMENT_BYTES + 1, 2 * SEGMENT_BYTES, 3 * SEGMENT_BYTES]),
)


def text(size: int) -> bytes:
    return (b"%08d" * (size // 8 + 1) % tuple(range(size // 8 + 1)))[:size]


def sealed(data: bytes, step: int = SEGMENT_BYTES, subject: Subject = SUBJECT) -> bytes:
    sealer = ObjectSealer(TenantKey(bytes(KEY_ID_BYTES), KEY), subject)
    parts = [sealer.write(data[at : at + step]) for at in range(0, len(data), step)]
    assert sealer.size == len(data)
    return b"".join([*parts, sealer.finish()])


def opened(
    data: bytes, at: int = 0, size: int | None = None, *, keys: Sequence[bytes] = (KEY,), subject: Subject = SUBJECT
) -> bytes:
    opener = ObjectOpener(keys, subject, header_of(data), len(data))
    blocks = opener.blocks(at, size, 2)
    return b"".join(opener.open(block, data[block.start : block.start + block.length]) for block in blocks)


@given(SIZES, st.integers(1, 100_000), st.integers(0, 250_000), st.none() | st.integers(0, 250_000))
def test_any_range_comes_back(size: int, step: int, at: int, length: int | None) -> None:
    """However an object was written, each range of it is what was written there, cut at its end."""
    data = text(size)
    wanted = data[at:] if length is None else data[at : at + length]
    assert opened(sealed(data, step), at, length) == wanted


@given(SIZES.filter(bool), st.data())
def test_a_cut_object_does_not_open_to_its_end(size: int, draw: st.DataObject) -> None:
    """An object that lost bytes at its end, whole segments too, fails for each reader who comes to the end."""
    whole = sealed(text(size))
    edges = [HEADER_BYTES + number * SEALED_BYTES for number in range(size // SEGMENT_BYTES + 1)]
    cut = draw.draw(st.integers(0, len(whole) - 1) | st.sampled_from(edges).filter(lambda at: at < len(whole)))
    for at, length in ((0, None), (size - 1, 1), (size, 5), (size + 9, None)):
        with pytest.raises(Unreadable):
            opened(whole[:cut], at, length)


@given(st.data())
def test_moved_segments_do_not_open(draw: st.DataObject) -> None:
    """Segments in another order, doubled or left out fail, as do those of another object, tenant, kind or salt."""
    data = text(3 * SEGMENT_BYTES + 100)
    whole = sealed(data)
    header, body = whole[:HEADER_BYTES], whole[HEADER_BYTES:]
    segments = [body[at : at + SEALED_BYTES] for at in range(0, len(body), SEALED_BYTES)]
    foreign = [
        sealed(data, subject=subject)[HEADER_BYTES:][:SEALED_BYTES]
        for subject in (
            SUBJECT,
            SUBJECT._replace(name="file/file-2"),
            SUBJECT._replace(tenant=TenantId("shop")),
            SUBJECT._replace(kind="answers"),
        )
    ]
    kept = draw.draw(st.lists(st.sampled_from([*segments, *foreign]), min_size=1, max_size=5))
    if kept != segments:
        with pytest.raises(Unreadable):
            opened(header + b"".join(kept))


@dataclass(frozen=True)
class Wrong:
    key: bytes = KEY
    subject: Subject = SUBJECT


@pytest.mark.parametrize(
    "wrong",
    [
        Wrong(key=OTHER),
        Wrong(subject=SUBJECT._replace(tenant=TenantId("shop"))),
        Wrong(subject=SUBJECT._replace(name="file/file-2")),
        Wrong(subject=SUBJECT._replace(kind="answers")),
    ],
)
@pytest.mark.parametrize("size", [0, 10, SEGMENT_BYTES + 1])
def test_others_do_not_open_it(wrong: Wrong, size: int) -> None:
    """Neither another key nor another tenant, object or kind opens a single byte, nor says that it is empty."""
    whole = sealed(text(size))
    with pytest.raises(Unreadable):
        opened(whole, 0, 1, keys=(wrong.key,), subject=wrong.subject)
    assert opened(whole) == text(size)


@given(st.integers(0, 2 * SEALED_BYTES), st.integers(1, 255))
def test_each_byte_counts(at: int, change: int) -> None:
    """No byte of a sealed object, header included, can change."""
    whole = bytearray(sealed(text(SEGMENT_BYTES + 10)))
    whole[at % len(whole)] ^= change
    with pytest.raises(Unreadable):
        opened(bytes(whole))


def test_an_older_key_opens_what_it_sealed() -> None:
    """After an exchange of keys all of them are tried, also for a range that begins in the middle."""
    data = text(2 * SEGMENT_BYTES)
    assert opened(sealed(data), keys=(OTHER, KEY)) == data
    assert opened(sealed(data), SEGMENT_BYTES, 5, keys=(OTHER, OTHER, KEY)) == data[SEGMENT_BYTES:][:5]


@pytest.mark.parametrize(
    "header", [b"", b"short", b"PSL\x63" + bytes(32), FORMAT + bytes(16), FORMER + bytes(32), bytes(HEADER_BYTES)]
)
def test_another_format_is_refused(header: bytes) -> None:
    """A header of a version that is not known here is refused before a key is tried."""
    with pytest.raises(Unreadable):
        Opening(KEY, SUBJECT, header)
    with pytest.raises(Unreadable):
        opened(header + bytes(100))


@given(SIZES, st.data())
def test_the_former_format_opens(size: int, draw: st.DataObject) -> None:
    """Objects that were sealed under a key derived from the platform's open in any range, for their owner alone."""
    data, header = text(size), FORMER + b"s" * 16
    of_tenant = hmac.digest(KEY, b"payloads/acme\x01", "sha256")
    cipher = AESGCM(hmac.digest(of_tenant, SUBJECT.name.encode() + header + b"\x01", "sha256"))
    parts = [data[at : at + SEGMENT_BYTES] for at in range(0, max(size, 1), SEGMENT_BYTES)]
    nonces = [number.to_bytes(11) + bytes([number == len(parts) - 1]) for number in range(len(parts))]
    whole = header + b"".join(cipher.encrypt(nonce, part, None) for nonce, part in zip(nonces, parts, strict=True))
    at = draw.draw(st.integers(0, size))
    assert opened(whole, at, keys=(OTHER, KEY)) == data[at:]
    with pytest.raises(Unreadable):
        opened(whole, subject=SUBJECT._replace(tenant=TenantId("shop")))
