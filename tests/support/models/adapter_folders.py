"""Folders on disk for tests of packaging: a tiny base with linear layers, and LoRA adapters as PEFT saves them."""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.domain.models.model import ModelVersion
from penstock.packaging.packing import Choices, Packed
from tests.support.models.versions import CHOICES, Home, model_folder, safetensors

Q, DOWN = "model.layers.0.self_attn.q_proj", "model.layers.0.mlp.down_proj"
LINEAR = {Q: (12, 6), DOWN: (6, 20)}
"""Output and input features."""
RANK = 4
ROOM = {"adapter_slots": 2, "adapter_rank": 8}


def packed_floats(values: list[float], dtype: str) -> bytes:
    """Return numbers as a file of weights holds them."""
    if dtype == "F32":
        return struct.pack(f"<{len(values)}f", *values)
    if dtype == "F16":
        return struct.pack(f"<{len(values)}e", *values)
    if dtype == "BF16":
        return b"".join(struct.pack("<f", value)[2:] for value in values)
    return struct.pack(f"<{len(values)}d", *values)


@dataclass
class Tensor:
    """One tensor of a file to be."""

    shape: tuple[int, ...]
    values: list[float]
    dtype: str = "F32"

    @property
    def data(self) -> bytes:
        return packed_floats(self.values, self.dtype)


def tensor(*shape: int, dtype: str = "F32") -> Tensor:
    count = 1
    for size in shape:
        count *= size
    return Tensor(shape, [((at * 37) % 101 - 50) / 512 for at in range(count)], dtype)


def write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    header, data = dict[str, object](), b""
    for name, one in tensors.items():
        header[name] = {"dtype": one.dtype, "shape": one.shape, "data_offsets": [len(data), len(data) + len(one.data)]}
        data += one.data
    path.write_bytes(safetensors(header, data))


def base_folder(folder: Path) -> Path:
    """Write a tiny model with two linear layers, an embedding and a norm."""
    model_folder(folder)
    others = {"model.embed_tokens.weight": (30, 6), "model.norm.weight": (6,)}
    shapes = {f"{module}.weight": shape for module, shape in LINEAR.items()} | others
    write(folder / "model.safetensors", {name: tensor(*shape, dtype="BF16") for name, shape in shapes.items()})
    return folder


def pushed_base(home: Home, **room: int) -> ModelVersion:
    """Return a base in the store that has this room for adapters."""
    choices = replace(CHOICES, engine_changes=room or ROOM)
    return registered(home.publish(base_folder(home.root / f"base{len(list(home.root.iterdir()))}"), choices))


def registered(packed: Packed) -> ModelVersion:
    """Return what was packed as the registry has it."""
    return ModelVersion(id=packed.id, digest=packed.digest, manifest=packed.manifest, created_at=0.0)


def tensors(
    rank: int = RANK, *, dtype: str = "F32", modules: Mapping[str, tuple[int, int]] | None = None
) -> dict[str, Tensor]:
    """Return both matrices of each module, under PEFT's names."""
    found = {}
    for module, (rows, columns) in (modules or LINEAR).items():
        found[f"base_model.model.{module}.lora_A.weight"] = tensor(rank, columns, dtype=dtype)
        found[f"base_model.model.{module}.lora_B.weight"] = tensor(rows, rank, dtype=dtype)
    return found


def adapter_folder(folder: Path, weights: Mapping[str, Tensor] | None = None, **config: object) -> Path:
    """Write an adapter as ``save_pretrained`` does."""
    folder.mkdir(parents=True)
    write(folder / "adapter_model.safetensors", tensors() if weights is None else weights)
    settings = {
        "peft_type": "LORA",
        "base_model_name_or_path": "somebody/base",
        "r": RANK,
        "lora_alpha": 8,
        "target_modules": ["q_proj", "down_proj"],
        "bias": "none",
        "use_dora": False,
        "modules_to_save": None,
        "rank_pattern": {},
    }
    (folder / "adapter_config.json").write_text(json.dumps({**settings, **config}))
    (folder / "README.md").write_text("a card")
    return folder


def choices(name: str = "pirate") -> Choices:
    """Return what is decided of an adapter."""
    return replace(CHOICES, name=type(CHOICES.name)(name))


def unpacked(data: bytes, dtype: str) -> float:
    """Return the number that these bytes of a file are."""
    if dtype == "BF16":
        data = b"\0\0" + data
    value: float = struct.unpack("<e" if dtype == "F16" else "<f", data)[0]
    return value
