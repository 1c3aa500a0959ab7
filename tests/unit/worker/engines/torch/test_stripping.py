"""What Pillow is shown of an image: what costs time without pixels is left out or refused before."""

import io
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from penstock.domain.errors import InvalidField
from penstock.worker.engines.torch import images, stripping
from penstock.worker.engines.torch.stripping import stripped

SIDE = 32
NOISE = np.random.default_rng(7).integers(0, 255, (48, 64, 3), dtype=np.uint8)


def chunk(kind: bytes, data: bytes = b"") -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the chunks of a PNG."""
    at = 8
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        at += 12 + length


def png(beside: bytes = b"", idat_bytes: int = 1 << 20) -> bytes:
    """Return a picture with something between its head and its pixels, which come in parts of a size."""
    out = io.BytesIO()
    Image.fromarray(NOISE).save(out, "PNG")
    head, *_ = (held for kind, held in chunks(out.getvalue()) if kind == b"IHDR")
    rows = b"".join(held for kind, held in chunks(out.getvalue()) if kind == b"IDAT")
    parts = b"".join(chunk(b"IDAT", rows[at : at + idat_bytes]) for at in range(0, len(rows), idat_bytes))
    return out.getvalue()[:8] + chunk(b"IHDR", head) + beside + parts + chunk(b"IEND")


def jpeg(*segments: bytes, progressive: bool = False) -> bytes:
    """Return a picture with segments in front."""
    out = io.BytesIO()
    Image.fromarray(NOISE).save(out, "JPEG", progressive=progressive)
    return out.getvalue()[:2] + b"".join(segments) + out.getvalue()[2:]


def segment(kind: int, data: bytes) -> bytes:
    return bytes((0xFF, kind)) + struct.pack(">H", 2 + len(data)) + data


def exif(orientation: int, *tags: int) -> bytes:
    """Return EXIF with an orientation, and behind it tags of bytes."""
    entries = struct.pack(">HHIHH", 0x0112, 3, 1, orientation, 0)
    entries += b"".join(struct.pack(">HHIBBH", tag, 1, 1, 8, 0, 0) for tag in tags)
    return b"Exif\0\0MM\0\x2a" + struct.pack(">IH", 8, 1 + len(tags)) + entries + bytes(4)


def seen(data: bytes) -> list[list[list[int]]]:
    return np.array(images.pixels(data, SIDE, "image")).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("tag", [0x100, 0x101, 0x128, 0xA005])
def test_tags_of_an_odd_type_beside_an_orientation_are_nobody_s_error(tag: int) -> None:
    """The picture is turned as its EXIF says; Pillow wrote the other tags anew, and broke with ``struct.error``."""
    turned = np.array(images.pixels(jpeg(segment(0xE1, exif(6, tag))), SIDE, "image"))
    upright = np.rot90(np.array(images.pixels(jpeg(), SIDE, "image")), -1)
    assert turned.tolist() == upright.tolist()


@pytest.mark.parametrize("orientation", range(10))
@pytest.mark.parametrize("where", ["JPEG", "PNG", "WEBP"])
def test_an_image_is_turned_as_pillow_would(orientation: int, where: str) -> None:
    """Each orientation there is, and two that there are not, in each format."""
    told, out = Image.Exif(), io.BytesIO()
    told[0x0112] = orientation
    Image.fromarray(NOISE).save(out, where, exif=told)
    plain = io.BytesIO()
    ImageOps.exif_transpose(Image.open(out)).save(plain, "PNG")
    ours, theirs = np.array(seen(out.getvalue())), np.array(seen(plain.getvalue()))
    assert np.abs(ours - theirs).mean() < 1


@pytest.mark.parametrize(
    "error", [struct.error("x"), KeyError("x"), RuntimeError("x"), TypeError("x"), IndexError("x")]
)
def test_whatever_the_decoder_raises_is_the_caller_s_error(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image that Pillow stumbles over is damaged, in words, whatever class the error has."""

    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Image, "open", broken)
    with pytest.raises(InvalidField, match="cut off or damaged"):
        images.pixels(png(), SIDE, "image")


BESIDE: dict[str, Callable[[], bytes]] = {
    "profiles": lambda: chunk(b"iCCP", b"p\0\0" + zlib.compress(bytes(1000))) * 800,
    "compressed texts": lambda: chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(1000))) * 63,
    "texts": lambda: chunk(b"tEXt", b"k\0v") * 900 + chunk(b"iTXt", b"k\0\0\0\0\0v"),
    "private ones": lambda: chunk(b"prVt") * 900,
}


@pytest.mark.parametrize("kind", BESIDE)
def test_pillow_is_shown_none_of_a_png_s_chunks_but_its_pixels(kind: str) -> None:
    """Profiles and texts cost it seconds that no pixel told: three chunks are left, and the same picture."""
    data = png(BESIDE[kind]())
    assert [name for name, _ in chunks(stripped(data, "image").data)] == [b"IHDR", b"IDAT", b"IEND"]
    assert seen(data) == seen(png())


def test_a_png_of_chunks_without_number_is_refused_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a million empty ones: the walk ends at its bound, and Pillow is not asked."""
    monkeypatch.setattr(Image, "open", None)
    with pytest.raises(InvalidField, match=r"has more than \d+ chunks: save it anew"):
        images.pixels(png(chunk(b"prVt") * 500_000), SIDE, "image")


@pytest.mark.parametrize("idat_bytes", [16, 100, 8192])
def test_pixels_in_many_parts_are_one_picture(idat_bytes: int) -> None:
    """An encoder may write them in hundreds of small chunks; they are the same pixels."""
    assert seen(png(idat_bytes=idat_bytes)) == seen(png())


def test_pillow_is_shown_none_of_a_jpeg_s_profiles_and_previews() -> None:
    """A photograph with what cameras put beside it is decoded as without, and of it the EXIF is kept apart."""
    beside = [segment(0xE1, exif(1)), *[segment(0xE2, b"ICC_PROFILE\0" + bytes(9000))] * 255, segment(0xFE, b"hello")]
    found = stripped(jpeg(*beside), "image")
    assert found.data == jpeg()
    assert found.exif == exif(1)


@pytest.mark.parametrize(
    ("segments", "says"),
    [
        ([segment(0xFE, b"")] * 5000, "more than 1024 segments before its pixels"),
        ([segment(0xDB, bytes(65_000))] * 9, "more tables than a JPEG has"),
    ],
)
def test_a_jpeg_of_segments_without_number_is_refused_unseen(
    segments: list[bytes], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pillow reads each in Python: there are only so many, and of tables so many bytes."""
    monkeypatch.setattr(Image, "open", None)
    with pytest.raises(InvalidField, match=says):
        images.pixels(jpeg(*segments), SIDE, "image")


def test_scans_are_counted_of_the_picture_that_is_decoded() -> None:
    """A progressive photograph passes with another one behind it, and with markers of scans in a preview."""
    one = jpeg(segment(0xE1, exif(1) + b"\xff\xda" * 99), progressive=True)
    assert one.count(b"\xff\xda") > stripping.MAX_SCANS
    assert seen(one + one) == seen(jpeg(progressive=True))


HONEST = (png(), png(idat_bytes=100), jpeg(segment(0xE1, exif(6, 0x100))), jpeg(progressive=True))


@given(data=st.sampled_from(HONEST), at=st.integers(0, 800), noise=st.binary(max_size=12), lost=st.integers(0, 12))
def test_bytes_from_anybody_are_an_image_or_the_caller_s_error(data: bytes, at: int, noise: bytes, lost: int) -> None:
    """Whatever is written over or cut out, there is a square or a refusal."""
    with suppress(InvalidField):
        assert images.pixels(data[:at] + noise + data[at + lost :], SIDE, "image").size == (SIDE, SIDE)
