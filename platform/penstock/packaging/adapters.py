"""``penstock models push --base``: turns a PEFT folder into an adapter version of a base."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from penstock.domain.errors import ArtifactRefused
from penstock.domain.models import adapter
from penstock.domain.models.model import AdapterSettings, Manifest, ModelVersion, Provenance
from penstock.domain.money import Price
from penstock.formats import manifests
from penstock.formats.contents import PICKLES, check_manifest
from penstock.packaging import adapter_config, adapter_weights
from penstock.packaging.packing import Choices, Packed, Publishing, measure, publish


def push(source: Path, choices: Choices, base: ModelVersion, publishing: Publishing) -> Packed:
    """Blocks. Raises ``ArtifactRefused`` if the adapter does not fit its base."""
    with tempfile.TemporaryDirectory(prefix=".adapter-", dir=publishing.work) as name:
        folder = Path(name)
        publishing.report(f"{choices.name}: checking it beside {base.id}")
        price = _price_of(choices)
        settings = _collect(source, folder, choices, base, publishing)
        manifest = _described(folder, choices, price, base, settings)
        return publish(folder, manifest, publishing)


def _collect(
    source: Path, folder: Path, choices: Choices, base: ModelVersion, publishing: Publishing
) -> AdapterSettings:
    weights = _weights_in(source)
    config = adapter_config.read(source)
    adapter.check_base(base, config.rank)
    shapes = adapter_weights.shapes_of(base.manifest, publishing.store)
    _check_size(weights, config.rank, shapes)
    shutil.copyfile(weights, folder / adapter.WEIGHTS)
    modules = adapter_weights.check(folder / adapter.WEIGHTS, config, shapes, base.manifest.engine.dtype)
    adapter_config.write(folder, config, [module.rpartition(".")[2] for module in modules])
    (folder / adapter.TOKENIZER).write_bytes(publishing.store.read_small(adapter.tokenizer_of(base.manifest)))
    _tell_left_out(source, choices.name, publishing)
    return AdapterSettings(base=base.digest, rank=config.rank)


def _weights_in(source: Path) -> Path:
    weights = source / adapter.WEIGHTS
    for name in (adapter.WEIGHTS, adapter.CONFIG):
        if (source / name).is_symlink():
            raise ArtifactRefused(
                f"{name} is a link, which may lead anywhere: copy the folder with cp -rL, and push that"
            )
    if weights.is_file():
        return weights
    pickles = sorted(path.name for path in source.glob("*") if path.suffix in PICKLES) if source.is_dir() else []
    if pickles:
        raise ArtifactRefused(
            f"{pickles[0]} can run code when it is loaded: save it with save_pretrained(safe_serialization=True)"
        )
    raise ArtifactRefused(f"there is no {adapter.WEIGHTS} in {source}")


def _check_size(weights: Path, rank: int, shapes: adapter_weights.Shapes) -> None:
    """Check the size before copying: at most what the rank allows (4 bytes per value, and a header)."""
    most = sum(4 * rank * (rows + columns) + _HEADER_BYTES for rows, columns in shapes.values()) + _HEADER_BYTES
    size = weights.stat().st_size
    if size > most:
        raise ArtifactRefused(f"{adapter.WEIGHTS} has {size:,} bytes, and at rank {rank} this base allows {most:,}")


_HEADER_BYTES = 4096
"""More than a header needs for the two matrices of one module."""


def _price_of(choices: Choices) -> Price:
    if choices.engine_changes or choices.tensor_parallel_size != 1:
        raise ArtifactRefused("an adapter runs as its base does: leave --engine and --gpus out")
    if choices.price is None:
        raise ArtifactRefused("a version needs a price: give --price")
    if not choices.licence:
        raise ArtifactRefused("a version needs a licence: give --licence, for example Apache-2.0")
    return choices.price


def _described(folder: Path, choices: Choices, price: Price, base: ModelVersion, settings: AdapterSettings) -> Manifest:
    manifest = replace(
        base.manifest,
        name=choices.name,
        files=measure(folder, adapter.FILES),
        price=price,
        tier=choices.tier or base.manifest.tier,
        provenance=Provenance(origin=choices.origin, licence=choices.licence, source_sha256=choices.source_sha256),
        golden=choices.golden,
        adapter=settings,
    )
    manifests.check(manifest)
    check_manifest(manifest)
    adapter.check_beside(manifest, settings, base)
    return manifest


def _tell_left_out(source: Path, name: str, publishing: Publishing) -> None:
    """Print the files left out of the version; the tokenizer is always the base's."""
    left = sorted(path.name for path in source.iterdir() if path.name not in {adapter.WEIGHTS, adapter.CONFIG})
    if shown := [one for one in left if not one.startswith(".")][:8]:
        publishing.report(f"{name}: left out {', '.join(shown)}: an adapter is its weights and its settings")
