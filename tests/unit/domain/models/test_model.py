"""Manifests: what came later changes no digest of what was there before."""

from dataclasses import replace

import msgspec

from penstock.domain.ids import ModelName
from penstock.domain.models.model import (
    Artifact,
    HandlerSettings,
    Manifest,
    Provenance,
    Runtime,
    Task,
    Tier,
    canonical,
    digest_of,
)
from penstock.domain.models.tensors import Datatype, TensorSpec
from penstock.domain.money import MicroUsd, Price

MANIFEST = Manifest(
    name=ModelName("m"),
    task=Task.EMBED,
    tier=Tier.EMBEDDING,
    files=(Artifact(path="config.json", sha256="0" * 64, size_bytes=1),),
    price=Price(prompt_per_mtok=MicroUsd(1), cached_per_mtok=MicroUsd(1), output_per_mtok=MicroUsd(0)),
    provenance=Provenance(origin="o", licence="MIT"),
)
HANDLER = HandlerSettings(
    name="handler.py",
    inputs=(TensorSpec(name="image", datatype=Datatype.BYTES, shape=(-1, 1)),),
    outputs=(TensorSpec(name="scores", datatype=Datatype.FP32, shape=(-1, 10)),),
)


def test_versions_from_before_keep_their_digest() -> None:
    """A manifest without a handler has the digest that it had before there were any."""
    assert digest_of(MANIFEST) == "3208967a86b595fbc92b0e2e6156cecf1aef6b40a9f47d8f3d19cf9d22b4d5ea"


def test_a_handler_from_before_keeps_its_digest() -> None:
    """One that says nothing of optional inputs and notes has the digest that it had before it could."""
    assert (
        digest_of(replace(MANIFEST, handler=HANDLER))
        == "e937b8cd602b27df74c8787a435cf738d4b92fd29166c57d9c2fa3e33d23856a"
    )


def test_a_handler_is_part_of_what_a_version_is() -> None:
    """Another handler is another version, and it comes back from the stored manifest as it was signed."""
    with_handler = replace(MANIFEST, handler=HANDLER)
    handlers = (
        replace(HANDLER, max_batch=5),
        replace(HANDLER, item_tokens=5),
        replace(HANDLER, optional=("image",)),
        replace(HANDLER, notes=(("image", "a file"),)),
    )
    others = [replace(MANIFEST, handler=one) for one in handlers]
    assert len({digest_of(one) for one in (MANIFEST, with_handler, *others)}) == 6
    for one in (with_handler, *others):
        assert msgspec.json.decode(canonical(one), type=Manifest) == one
    assert (MANIFEST.runtime, with_handler.runtime) == (Runtime.VLLM, Runtime.TORCH)
