"""Counts the bytes of a model's weights from its safetensors headers."""

from pathlib import Path

from penstock.formats.safetensors_header import reader_of, tensors_of


def weight_bytes(folder: Path) -> int:
    """Return the bytes of all tensors in the folder's safetensors files; 0 without one.

    Raises ``ArtifactRefused`` for a false header.
    """
    total = 0
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            _, tensors = tensors_of(reader_of(file), path.stat().st_size, path.name)
        total += sum(one.end - one.begin for one in tensors.values())
    return total
