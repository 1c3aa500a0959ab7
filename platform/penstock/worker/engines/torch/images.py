"""Decodes an image to RGB pixels of one size, within a bound on pixels and so on time.

An image that can't be decoded faithfully is refused with the reason: a network classifies wrong colours with high
confidence. Pillow reads the header first, so a decompression bomb is refused before a pixel exists; a large JPEG is
decoded at a fraction of its size.
"""

import io
import struct
import warnings
from base64 import b64decode
from binascii import Error

from PIL import Image, UnidentifiedImageError
from PIL.Image import Transpose

from penstock.domain.errors import InvalidField
from penstock.formats import pictures
from penstock.formats.pictures import MAX_PIXELS
from penstock.worker.engines.torch.stripping import damaged, stripped

MAX_TAGS = 256
"""EXIF tags are sorted, and orientation is among the first."""
_ORIENTATION = 0x0112
_KINDS = {1: "B", 3: "H", 4: "I"}
_TURNS = {
    2: Transpose.FLIP_LEFT_RIGHT,
    3: Transpose.ROTATE_180,
    4: Transpose.FLIP_TOP_BOTTOM,
    5: Transpose.TRANSPOSE,
    6: Transpose.ROTATE_270,
    7: Transpose.TRANSVERSE,
    8: Transpose.ROTATE_90,
}


def turn(exif: bytes) -> Transpose | None:
    tiff = exif.removeprefix(b"Exif\0\0")
    order = {b"II": "<", b"MM": ">"}.get(tiff[:2])
    try:
        return _TURNS.get(_orientation(tiff, order)) if order else None
    except struct.error:
        return None


def _orientation(tiff: bytes, order: str) -> int:
    (begin,) = struct.unpack_from(f"{order}I", tiff, 4)
    (tags,) = struct.unpack_from(f"{order}H", tiff, begin)
    for at in range(begin + 2, begin + 2 + 12 * min(tags, MAX_TAGS), 12):
        tag, kind = struct.unpack_from(f"{order}HH", tiff, at)
        if tag == _ORIENTATION:
            (value,) = struct.unpack_from(order + _KINDS.get(kind, "H"), tiff, at + 8)
            return int(value)
    return 1


FORMATS = ("JPEG", "PNG", "WEBP")
MAX_SIDE = 16_384
_MODES = frozenset({"1", "L", "LA", "P", "RGB", "RGBA"})
_MEDIA = tuple(f"data:image/{name.lower()};base64," for name in FORMATS)


def encoded(given: str | bytes, param: str) -> bytes:
    if isinstance(given, bytes):
        return given
    prefix = next((one for one in _MEDIA if given.startswith(one)), "")
    if not prefix:
        raise InvalidField(f"{param} must be an image as data:image/jpeg;base64,… (or png, webp)", param=param)
    try:
        return b64decode(given[len(prefix) :], validate=True)
    except (Error, ValueError) as error:
        raise InvalidField(f"{param} is not valid base64", param=param) from error


def pixels(data: bytes, side: int, param: str) -> Image.Image:
    """Return the centre square in RGB; raises ``InvalidField``."""
    shown = stripped(data, param)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(shown.data), formats=FORMATS) as image:
                _check(image, data, param)
                image.draft("RGB", (2 * side, 2 * side))
                how = turn(shown.exif or image.info.get("exif", b""))
                square = _square(image.convert("RGB"), side)
                return square if how is None else square.transpose(how)
    except UnidentifiedImageError as error:
        raise InvalidField(f"{param} is no JPEG, PNG or WebP image", param=param) from error
    except InvalidField:
        raise
    except Image.DecompressionBombError as error:
        raise _too_large(param) from error
    except Exception as error:  # what a decoder raises of bytes from anybody has no class in common
        raise damaged(param) from error


def _check(image: Image.Image, data: bytes, param: str) -> None:
    width, height = image.size
    told = pictures.of_bytes(data)
    if told is not None and told != pictures.UNKNOWN and (told.width, told.height) != image.size:
        raise InvalidField(f"{param} states two different sizes: it is damaged", param=param)
    if max(width, height) > MAX_SIDE or width * height > MAX_PIXELS:
        raise _too_large(param)
    if getattr(image, "n_frames", 1) > 1:
        raise InvalidField(f"{param} is an animation: send a single frame of it", param=param)
    if image.mode not in _MODES:
        kind = "CMYK" if image.mode == "CMYK" else f"of mode {image.mode}"
        raise InvalidField(f"{param} is {kind}: send 8 bits of RGB or grey", param=param)


def _too_large(param: str) -> InvalidField:
    most = f"{MAX_PIXELS // 1_000_000} million pixels, {MAX_SIDE} a side"
    return InvalidField(f"{param} has more pixels than are decoded here ({most}): scale it down", param=param)


def _square(image: Image.Image, side: int) -> Image.Image:
    """Crop with a margin of an eighth, as in the networks' evaluation."""
    part = min(image.size) * side / (side + 32)
    left, top = (image.width - part) / 2, (image.height - part) / 2
    box = (left, top, left + part, top + part)
    return image.resize((side, side), Image.Resampling.BICUBIC, box=box)
