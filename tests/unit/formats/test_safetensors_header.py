"""The safetensors header is believed only as far as it adds up."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.errors import ArtifactRefused
from penstock.formats import safetensors_header as headers
from penstock.formats.safetensors_header import check_safetensors
from tests.support.models.versions import safetensors, weights

GOOD = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}


def tensor(**changes: object) -> dict[str, object]:
    return {**GOOD, **changes}


@pytest.mark.parametrize(
    "content",
    [
        weights(),
        safetensors({"__metadata__": {"format": "pt"}, "b": tensor(data_offsets=[24, 48]), "a": GOOD}, bytes(48)),
        safetensors({"scalar": tensor(shape=[], data_offsets=[0, 4])}, bytes(4)),
        safetensors({"none": tensor(shape=[0, 3], data_offsets=[0, 0])}, b""),
        safetensors({}, b""),
    ],
    ids=["one", "two out of order", "scalar", "no elements", "no tensors"],
)
def test_a_sound_header_passes(tmp_path: Path, content: bytes) -> None:
    """What the format allows is accepted."""
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    check_safetensors(path)


BAD = {
    "empty file": b"",
    "seven bytes": bytes(7),
    "longer than the file": safetensors(b"{}", b"")[:8] + b"{",
    "huge length": b"\xff" * 8 + b"{}",
    "a pickle": b"\x80\x04\x95" + bytes(40),
    "no JSON": safetensors(b"{nope", b""),
    "a list": safetensors([1], b""),
    "too deep": safetensors(b'{"a":' * 20_000 + b"1" + b"}" * 20_000, b""),
    "tensor is a number": safetensors({"w": 3}, b""),
    "unknown dtype": safetensors({"w": tensor(dtype="OBJ")}, bytes(24)),
    "shape of text": safetensors({"w": tensor(shape=["2", 3])}, bytes(24)),
    "negative shape": safetensors({"w": tensor(shape=[-2, -3])}, bytes(24)),
    "true as size": safetensors({"w": tensor(shape=[True, 6])}, bytes(24)),
    "too many dimensions": safetensors({"w": tensor(shape=[1] * 15 + [2, 3])}, bytes(24)),
    "shape and bytes differ": safetensors({"w": tensor(shape=[2, 4])}, bytes(24)),
    "offsets backwards": safetensors({"w": tensor(data_offsets=[24, 0])}, bytes(24)),
    "negative offset": safetensors({"w": tensor(data_offsets=[-24, 0])}, bytes(24)),
    "three offsets": safetensors({"w": tensor(data_offsets=[0, 24, 48])}, bytes(24)),
    "data missing": safetensors({"w": GOOD}, bytes(23)),
    "data left over": safetensors({"w": GOOD}, bytes(25)),
    "gap": safetensors({"w": tensor(data_offsets=[8, 32])}, bytes(32)),
    "notes that are a list": safetensors({"__metadata__": [1, 2], "w": GOOD}, bytes(24)),
    "notes of numbers": safetensors({"__metadata__": {"a": 1}, "w": GOOD}, bytes(24)),
    "one name twice": safetensors(b'{"w": 1, "w": 2}', b""),
    "an offset of many digits": safetensors({"w": tensor(shape=[10**999], data_offsets=[0, 4 * 10**999])}, bytes(24)),
    "overlap": safetensors({"a": GOOD, "b": tensor(data_offsets=[12, 36])}, bytes(36)),
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD.keys())
def test_a_header_that_does_not_add_up_is_refused(tmp_path: Path, content: bytes) -> None:
    """Each lie in a header is refused with the file's name and what to do."""
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(ArtifactRefused, match=r"model\.safetensors is not a sound .* Save the weights again"):
        check_safetensors(path)


def test_a_header_above_the_limit_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The length is checked before the bytes are taken into memory."""
    monkeypatch.setattr(headers, "MAX_HEADER_BYTES", 10)
    path = tmp_path / "model.safetensors"
    path.write_bytes(weights())
    with pytest.raises(ArtifactRefused, match="claims"):
        check_safetensors(path)


@given(content=st.binary(max_size=64))
def test_no_bytes_raise_anything_else(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever a file holds, the answer is yes or a refusal."""
    path = tmp_path_factory.getbasetemp() / "any.safetensors"
    path.write_bytes(len(content).to_bytes(8, "little") + content)
    with suppress(ArtifactRefused):
        check_safetensors(path)
