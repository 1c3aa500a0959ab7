"""Checks an adapter's tensors against its base: known modules, right shapes, finite values.

vLLM loads a matrix of another shape silently and answers nonsense, and a NaN spoils other requests in the batch.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from penstock.domain.errors import ArtifactRefused
from penstock.domain.models import adapter
from penstock.domain.models.model import Manifest
from penstock.formats.adapter_gain import LoraPair
from penstock.formats.finite import BYTES, LARGEST, first_too_large, largest
from penstock.formats.safetensors_header import StoredTensor, check_safetensors, pieces_of, reader_of, tensors_of
from penstock.packaging.adapter_config import AdapterConfig
from penstock.packaging.ports import ArtifactStore

Shapes = Mapping[str, tuple[int, int]]
"""The base's linear modules: output and input features by name."""
_NAME = re.compile(r"(?:base_model\.model\.)?(?P<module>.+)\.lora_(?P<which>[AB])\.weight")
_MATRIX = 2
_NOT_LINEAR = frozenset({"embed_tokens", "lm_head", "wte", "wpe"})
"""Matrices of a base used for look-up or for output tokens: no adapter of them is served."""
_WEIGHTS = ".safetensors"
_SPOILS = "would spoil other tenants' answers, too. Train it again, or with a lower learning rate"


def shapes_of(base: Manifest, store: ArtifactStore) -> Shapes:
    """The layers' name prefix (``layers_pattern``); empty if any number in a name is a layer's."""
    found: dict[str, tuple[int, int]] = {}
    for file in base.files:
        if file.path.endswith(_WEIGHTS):
            _, tensors = tensors_of(partial(store.read_range, file.sha256), file.size_bytes, file.path)
            for name, tensor in tensors.items():
                module, _, kind = name.rpartition(".")
                if kind == "weight" and len(tensor.shape) == _MATRIX and _last(module) not in _NOT_LINEAR:
                    found[module] = (tensor.shape[0], tensor.shape[1])
    return found


def check(path: Path, config: AdapterConfig, shapes: Shapes, dtype: str) -> tuple[str, ...]:
    """Return the adapter's modules, checked against the base's ``shapes``. With ``lora_A`` or ``lora_B`` zero in every
    module it changes nothing: it was never trained. ``dtype`` is the engine's precision. Raises ``ArtifactRefused``
    with advice for the adapter's author.
    """
    check_safetensors(path)
    with path.open("rb") as file:
        begin, tensors = tensors_of(reader_of(file), path.stat().st_size, path.name)
        pairs = _pairs(tensors, shapes)
        for module, pair in sorted(pairs.items()):
            if config.targets.leaves_out(module):
                raise ArtifactRefused(f"it changes {module}, which its settings leave out: PEFT would not apply that")
            _check_shapes(module, pair, config.rank, shapes[module])
        is_changed, limit = False, LARGEST.get(dtype, LARGEST["float16"]) / max(1.0, config.scale)
        for module, pair in sorted(pairs.items(), key=lambda one: one[1]["A"].begin):
            most: dict[str, float] = {}
            for which, tensor in pair.items():
                read = partial(pieces_of, file, begin, tensor, path.name)
                most[which] = _largest(
                    read, tensor.dtype, limit, f"lora_{which} of {module} is not a finite number in {dtype}"
                )
            is_changed = is_changed or min(most.values()) > 0
            sizes = LoraPair(most_a=most["A"], most_b=most["B"], inputs=shapes[module][1], rank=config.rank)
            if fault := sizes.fault(config.scale, dtype):
                raise ArtifactRefused(f"{module} {fault}: it {_SPOILS}")
    if not is_changed:
        raise ArtifactRefused("it changes nothing: its lora_B (or lora_A) is zero in every module. Train it first")
    return tuple(sorted(pairs))


def _largest(read: Callable[[], Iterator[bytes]], dtype: str, limit: float, otherwise: str) -> float:
    most = largest(read(), dtype)
    if not most <= limit:
        raise ArtifactRefused(f"value {first_too_large(read(), dtype, limit):,} of {otherwise}: it {_SPOILS}")
    return most


def _pairs(tensors: Mapping[str, StoredTensor], shapes: Shapes) -> dict[str, dict[str, StoredTensor]]:
    pairs: dict[str, dict[str, StoredTensor]] = defaultdict(dict)
    for name, tensor in tensors.items():
        match = _NAME.fullmatch(name)
        if match is None:
            raise ArtifactRefused(
                f"{name[:120]!r} is not a LoRA matrix: only lora_A and lora_B of linear modules are served"
            )
        module = match["module"]
        if module not in shapes:
            known = ", ".join(sorted({_last(one) for one in shapes})[:12])
            raise ArtifactRefused(
                f"it changes {module[:120]!r}, which its base does not have as a linear module ({known})"
            )
        if tensor.dtype not in BYTES:
            raise ArtifactRefused(f"{name} is stored as {tensor.dtype}; save it as float32, float16 or bfloat16")
        if match["which"] in pairs[module]:
            raise ArtifactRefused(f"lora_{match['which']} of {module} stands in it twice, with and without a prefix")
        pairs[module][match["which"]] = tensor
    if not pairs:
        raise ArtifactRefused(f"{adapter.WEIGHTS} has no tensors in it")
    return pairs


def _check_shapes(module: str, pair: Mapping[str, StoredTensor], rank: int, base: tuple[int, int]) -> None:
    rows, columns = base
    for which, shape in (("A", (rank, columns)), ("B", (rows, rank))):
        tensor = pair.get(which)
        if tensor is None:
            raise ArtifactRefused(f"{module} has no lora_{which}: the file is not whole")
        if tensor.shape != shape:
            raise ArtifactRefused(
                f"lora_{which} of {module} is {_by(tensor.shape)}, and beside this base at rank {rank} it must be "
                f"{_by(shape)}: it was made for another model, or with another rank"
            )


def _by(shape: tuple[int, ...]) -> str:
    return "x".join(str(size) for size in shape)


def _last(module: str) -> str:
    return module.rpartition(".")[2]
