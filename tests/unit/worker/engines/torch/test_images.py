"""Images from anybody: decoded faithfully within bounds, or refused with the reason."""

import base64
import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from penstock.domain.errors import InvalidField
from penstock.worker.engines.torch import images, stripping

SIDE = 32


def encoded(mode: str, kind: str, size: tuple[int, int] = (64, 48), **options: object) -> bytes:
    """Return a picture with some noise on it."""
    noise = np.random.default_rng(7).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    image = Image.fromarray(noise).convert("L").convert(mode) if mode.startswith("I") else Image.fromarray(noise)
    out = io.BytesIO()
    image.convert(mode).save(out, kind, **options)
    return out.getvalue()


@pytest.mark.parametrize(
    ("mode", "kind"),
    [("RGB", "JPEG"), ("L", "JPEG"), ("RGB", "PNG"), ("RGBA", "PNG"), ("P", "PNG"), ("1", "PNG"), ("RGB", "WEBP")],
)
def test_usual_images_become_squares_of_rgb(mode: str, kind: str) -> None:
    """JPEG, PNG and WebP, in colour, grey, with a palette or with alpha."""
    square = images.pixels(encoded(mode, kind), SIDE, "image")
    assert (square.mode, square.size) == ("RGB", (SIDE, SIDE))


def bomb(width: int, height: int) -> bytes:
    """Return a PNG of a few bytes that says it has so many pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b"")


def animation() -> bytes:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    out = io.BytesIO()
    frames[0].save(out, "WEBP", save_all=True, append_images=frames[1:])
    return out.getvalue()


def second_head(first: bytes, second: bytes) -> bytes:
    """Return a PNG with the size of the first in front, and the second behind it."""
    return first[:33] + second[8:]


def many_scans() -> bytes:
    """Return a progressive JPEG whose last scan is there again and again."""
    data = encoded("RGB", "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:-2] + data[last:-2] * stripping.MAX_SCANS + data[-2:]


WRONG = {
    "two sizes": (second_head(encoded("RGB", "PNG", (8, 8)), encoded("RGB", "PNG")), "states two different sizes"),
    "scans without end": (many_scans(), "scans: save it as a baseline JPEG"),
    "nothing": (b"", "no JPEG, PNG or WebP"),
    "text": (b"hello", "no JPEG, PNG or WebP"),
    "GIF": (encoded("P", "GIF"), "no JPEG, PNG or WebP"),
    "CMYK": (encoded("CMYK", "JPEG"), "CMYK: send 8 bits of RGB or grey"),
    "16 bits": (encoded("I;16", "PNG"), "send 8 bits of RGB or grey"),
    "cut JPEG": (encoded("RGB", "JPEG")[:600], "cut off or damaged"),
    "cut PNG": (encoded("RGB", "PNG")[:600], "cut off or damaged"),
    "cut WebP": (encoded("RGB", "WEBP")[:600], "cut off or damaged"),
    "a bomb": (bomb(100_000, 100_000), "more pixels than are decoded here"),
    "a small bomb": (bomb(9_000, 9_000), "more pixels than are decoded here"),
    "a strip": (bomb(20_000, 1), "more pixels than are decoded here"),
    "an animation": (animation(), "an animation"),
}


@pytest.mark.parametrize(("data", "says"), WRONG.values(), ids=WRONG.keys())
def test_what_can_t_be_decoded_faithfully_is_refused(data: bytes, says: str) -> None:
    """Bombs by their head, other colours, cut and foreign files: each with its reason, and the field's name."""
    with pytest.raises(InvalidField, match=says) as refused:
        images.pixels(data, SIDE, "image")
    assert refused.value.param == "image"


def test_a_photograph_is_turned_as_its_camera_was() -> None:
    """An orientation that EXIF tells is applied before the middle is cut out."""
    picture = Image.new("RGB", (64, 64), "black")
    picture.paste("white", (0, 0, 64, 32))
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn clockwise
    out = io.BytesIO()
    picture.save(out, "PNG", exif=exif)
    turned = np.array(images.pixels(out.getvalue(), SIDE, "image"))
    assert turned[16, 28].tolist() == [255, 255, 255]
    assert turned[16, 3].tolist() == [0, 0, 0]


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp"])
def test_a_data_url_is_an_image(kind: str) -> None:
    """What stands behind the comma is decoded; bytes are taken as they are."""
    assert images.encoded(f"data:image/{kind};base64,{base64.b64encode(b'xyz').decode()}", "image") == b"xyz"
    assert images.encoded(b"xyz", "image") == b"xyz"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("https://example.com/cat.jpg", "must be an image as data:"),
        ("data:text/plain;base64,eHl6", "must be an image as data:"),
        ("data:image/png;base64,???", "not valid base64"),
        ("data:image/png;base64,é", "not valid base64"),
        ("", "must be an image as data:"),
    ],
)
def test_other_texts_are_no_images(text: str, says: str) -> None:
    """Nothing is fetched from anywhere, and base64 is taken strictly."""
    with pytest.raises(InvalidField, match=says):
        images.encoded(text, "image")


def test_a_photograph_with_another_picture_behind_it_is_the_photograph() -> None:
    """Phones keep brightness or depth as a second picture of the file (MPF): it is no animation."""
    first, second, out = Image.new("RGB", (64, 64), "red"), Image.new("RGB", (64, 64), "blue"), io.BytesIO()
    first.save(out, "MPO", save_all=True, append_images=[second])
    square = images.pixels(out.getvalue(), SIDE, "image")
    assert square.getpixel((0, 0)) == pytest.approx((254, 0, 0), abs=2)
