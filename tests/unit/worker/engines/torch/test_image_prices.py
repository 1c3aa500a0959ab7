"""What an image's head says is what its decoder finds: the price of decoding is never below the truth."""

import base64
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from penstock.formats import pictures
from penstock.formats.pictures import UNKNOWN, Picture

KINDS: dict[str, tuple[str, dict[str, object]]] = {
    "JPEG": ("JPEG", {}),
    "progressive JPEG": ("JPEG", {"progressive": True}),
    "JPEG with profiles": ("JPEG", {"exif": b"Exif\0\0" + b"x" * 60_000, "icc_profile": b"p" * 100_000}),
    "PNG": ("PNG", {}),
    "WebP": ("WEBP", {}),
    "lossless WebP": ("WEBP", {"lossless": True}),
    "WebP with a profile": ("WEBP", {"icc_profile": b"p" * 100}),
}


def saved(kind: str, width: int, height: int) -> bytes:
    """Return an encoded image of this size."""
    out, (name, options) = io.BytesIO(), KINDS[kind]
    Image.new("RGB", (width, height), "red").save(out, name, **options)
    return out.getvalue()


def url(data: bytes) -> str:
    return "data:image/jpeg;base64," + base64.b64encode(data).decode()


@pytest.mark.parametrize("kind", KINDS)
@given(width=st.integers(1, 300), height=st.integers(1, 300))
def test_the_head_tells_the_size_that_is_decoded(kind: str, width: int, height: int) -> None:
    """Of each format, as bytes and as an address, wherever its size stands."""
    data = saved(kind, width, height)
    found = pictures.of_bytes(data)
    assert found is not None
    assert found == pictures.of_url(url(data))
    with Image.open(io.BytesIO(data)) as image:
        assert (found.width, found.height) == image.size


@pytest.mark.parametrize("kind", KINDS)
@given(cut=st.integers(0, 400), noise=st.binary(max_size=40))
def test_a_head_that_can_t_be_read_costs_the_most(kind: str, cut: int, noise: bytes) -> None:
    """Whatever was cut off or written over: an image of some size, or the dearest there is, and never free."""
    data = saved(kind, 40, 30)[:cut] + noise
    found = pictures.of_bytes(data)
    assert found is None or found == UNKNOWN or found.tokens >= 1
    if data[:4] in (b"\x89PNG", b"\xff\xd8\xff\xe0", b"RIFF") and len(data) < 16:
        assert found in (None, UNKNOWN)
    assert pictures.of_url(url(data)) == found


def test_a_bomb_costs_its_pixels_and_a_photograph_no_more_than_that() -> None:
    """Few bytes of many pixels are dear, many bytes of few pixels are not; what is refused unread costs the most."""
    bomb = pictures.tokens_of_item(url(saved("PNG", 6000, 6000)))
    photograph = pictures.tokens_of(Picture(4000, 3000, 4096), 4 << 20)
    assert bomb >= 6000 * 6000 // 1024
    assert photograph < bomb / 5
    assert Picture(1 << 30, 1 << 30, 1024).tokens == UNKNOWN.tokens
