"""A model's shape is read from its settings as published, and an impossible one is refused by field."""

import ast
import re
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from penstock.domain.errors import ArtifactRefused
from penstock.domain.models.architecture import Attention, AttentionKind
from penstock.domain.models.model import ADAPTER_RANKS
from penstock.packaging.architecture import BITS, architecture_of
from penstock.packaging.known_models import MODELS

PUBLISHED = {
    # parameters and those that a token reads, in 10^9; bytes of KV cache a token of layers that keep all, bfloat16
    "SmolLM2-135M": (0.1345, 0.1345, 23_040),
    "Qwen2.5-1.5B": (1.54, 1.54, 28_672),
    "Qwen2.5-7B": (7.62, 7.62, 57_344),
    "Llama-3.1-8B": (8.03, 8.03, 131_072),
    "Llama-3.1-70B": (70.55, 70.55, 327_680),
    "Llama-3.1-405B": (405.9, 405.9, 516_096),
    "Llama-2-7B": (6.74, 6.74, 524_288),
    "Falcon-7B": (7.22, 7.22, 8_192),
    "Mistral-Nemo-12B": (12.25, 12.25, 163_840),
    "Mixtral-8x7B": (46.7, 12.9, 131_072),
    "Qwen3-8B": (8.19, 8.19, 147_456),
    "Qwen3-32B": (32.8, 32.8, 262_144),
    "Qwen3-30B-A3B": (30.5, 3.3, 98_304),
    "Qwen3-235B-A22B": (235.0, 22.0, 192_512),
    "Phi-4": (14.7, 14.7, 204_800),
    "Gemma-3-27B": (27.0, 27.0, 81_920),
    "Gemma-3-4B": (3.9, 3.9, 20_480),
    "gpt-oss-20b": (20.9, 3.6, 24_576),
    "gpt-oss-120b": (116.8, 5.1, 36_864),
    "DeepSeek-V3": (671.0, 37.0, 70_272),
}
"""Model cards of the makers; KV bytes by the formula of each attention."""


@pytest.mark.parametrize("name", MODELS)
def test_shapes_have_the_published_figures(name: str) -> None:
    """Parameters within 1.2 %, those of a token within 12 % (cards count embeddings or not), KV bytes exactly."""
    total, active, kv_bytes = PUBLISHED[name]
    found = architecture_of(MODELS[name])
    assert found.parameters.total / 1e9 == pytest.approx(total, rel=0.012)
    assert found.parameters.active / 1e9 == pytest.approx(active, rel=0.12)
    kept = [layer for layer in found.layers if layer.kind is not AttentionKind.WINDOW]
    assert sum(2 * layer.elements() for layer in kept) == kv_bytes


def test_every_known_model_has_its_published_row() -> None:
    """No shape is in the table without a figure that checks it."""
    assert set(MODELS) == set(PUBLISHED)


SMALL = MODELS["SmolLM2-135M"]
OTHER_CACHES = (
    *("mamba_d_state", "mamba_num_heads", "ssm_state_size", "state_size", "conv_L_cache", "lru_width", "block_types"),
    *("hybrid_override_pattern", "attn_layer_period", "attn_layer_indices", "full_attention_interval"),
    *("linear_num_key_heads", "linear_num_heads", "attention_chunk_size", "is_encoder_decoder", "num_kv_shared_layers"),
)
"""Fields by which Bamba, Jamba, Nemotron-H, Falcon H1, Mamba, LFM2, RecurrentGemma, Qwen3-Next, Kimi Linear, Llama 4,
Gemma 3n and T5 tell such layers.
"""
VLLM = Path(find_spec("vllm").submodule_search_locations[0])  # type: ignore[union-attr,index]


def named_in_vllm(file: str, name: str) -> str:
    """Return the expression that vLLM's file assigns to a name, without importing it."""
    tree = ast.parse((VLLM / file).read_text())
    return next(
        ast.unparse(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name
    )


def test_bits_and_ranks_are_those_of_the_installed_engine() -> None:
    """Each quantisation that is planned has the bits that vLLM's own table has, and adapters' slots its ranks."""
    methods = "model_executor/layers/quantization"
    for method, file in (("gptq", f"{methods}/auto_gptq.py"), ("awq", f"{methods}/auto_awq.py")):
        bits = {int(one) for one in re.findall(r"[{(, ](\d)(?:, True\))?:", named_in_vllm(file, "TYPE_MAP"))}
        assert bits == set(BITS[method])
    packed = f"{methods}/compressed_tensors/schemes/compressed_tensors_wNa16.py"
    assert set(BITS["compressed-tensors"]) == {
        int(one) for one in re.findall(r"(\d):", named_in_vllm(packed, "WNA16_SUPPORTED_TYPES_MAP"))
    }
    assert set(BITS) <= set(re.findall(r"'([^']+)'", named_in_vllm(f"{methods}/__init__.py", "QuantizationMethods")))
    ranks = named_in_vllm("config/lora.py", "MaxLoRARanks")
    assert tuple(int(one) for one in re.findall(r"\d+", ranks)) == ADAPTER_RANKS


def test_a_window_of_nothing_is_none() -> None:
    """A ``sliding_window`` of 0 is none in vLLM, in layers that are named sliding, too."""
    told = {**SMALL, "sliding_window": 0, "layer_types": ["sliding_attention"] * 30}
    assert architecture_of(told) == architecture_of({**SMALL, "sliding_window": 0}) == architecture_of(SMALL)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"num_attention_heads": None}, "lacks num_attention_heads"),
        ({"num_hidden_layers": 10**12}, "num_hidden_layers is not between 1 and 1,000"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is not between"),
        ({"num_hidden_layers": -3}, "num_hidden_layers is not between"),
        ({"hidden_size": "576"}, "hidden_size is no whole number"),
        ({"hidden_size": True}, "hidden_size is no whole number"),
        ({"head_dim": 1e9}, "head_dim is no whole number"),
        ({"vocab_size": float("nan")}, "vocab_size is no whole number"),
        ({"layer_types": ["mamba"] * 30}, "state layers have no KV cache that grows"),
        ({"layer_types": ["x" * 10_000] * 30}, "can't be planned (not known here)"),
        ({"layer_types": ["full_attention"]}, "layer_types names 1 of 30 layers"),
        ({"layer_types": ["sliding_attention"] * 30}, "lacks sliding_window"),
        ({"kv_lora_rank": 512}, "lacks qk_rope_head_dim"),
        ({"quantization_config": {"quant_method": "secret"}}, "quantisation 'secret' can't be planned"),
        ({"quantization_config": [1]}, "can't be planned"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 3}}, "vLLM has no gptq of 3 bits"),
        ({"quantization_config": {"quant_method": "gptq", "bits": [4]}}, "vLLM has no gptq of [4] bits"),
        ({"num_key_value_heads": 5}, "num_key_value_heads, 5, does not divide num_attention_heads, 9"),
        ({"num_key_value_heads": 0}, "num_key_value_heads is not between 1"),
        ({"hidden_size": 1}, "head_dim, or hidden_size over num_attention_heads"),
        ({"head_dim": 12}, "vLLM needs a multiple of 8"),
        ({"layer_types": ["full_attention"] * 31}, "layer_types names 31 of 30 layers"),
        ({"layer_types": {"full_attention": 30}}, "layer_types names none of 30 layers"),
        ({"layer_types": []}, "layer_types names 0 of 30 layers"),
        ({"num_experts": 8}, "lacks num_experts_per_tok"),
        ({"num_experts": 8, "num_experts_per_tok": 9}, "num_experts_per_tok is more than the 8 experts"),
        ({"num_experts": 8, "num_experts_per_tok": 2, "first_k_dense_replace": 31}, "first_k_dense_replace is more"),
        ({"sliding_window": 64, "use_sliding_window": "no"}, "use_sliding_window is neither true nor false"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings is neither true nor false"),
        ({"torch_dtype": "int3"}, "torch_dtype 'int3' can't be planned: name bfloat16"),
        ({"torch_dtype": 5}, "torch_dtype '5' can't be planned"),
        ({"torch_dtype": None, "dtype": "float8"}, "torch_dtype 'float8' can't be planned"),
        ({"torch_dtype": "float32", "dtype": "bfloat16"}, "torch_dtype and dtype differ"),
        ({"intermediate_size": None}, "lacks intermediate_size"),
        (
            {"intermediate_size": None, "num_experts": 8, "num_experts_per_tok": 2},
            "lacks moe_intermediate_size",
        ),
        ({"n_routed_experts": 8, "num_experts_per_tok": 2}, "lacks moe_intermediate_size"),
        ({"model_type": "bert"}, "config.json: model_type names layers with another cache"),
        *(({field: 4}, f"config.json: {field} names layers with another cache") for field in OTHER_CACHES),
    ],
)
def test_an_impossible_shape_is_refused_by_its_field(change: dict[str, Any], says: str) -> None:
    """What is missing, out of bounds or unknown is named, in a sentence that doesn't grow with the file."""
    with pytest.raises(ArtifactRefused) as caught:
        architecture_of({**SMALL, **change})
    assert says in str(caught.value)
    assert len(str(caught.value)) < 200


def test_layer_types_win_over_a_pattern_and_a_window() -> None:
    """The newer field tells each layer, whatever an older one beside it says."""
    told = {**SMALL, "sliding_window": 64, "sliding_window_pattern": 3, "layer_types": ["full_attention"] * 30}
    assert {layer.kind for layer in architecture_of(told).layers} == {AttentionKind.FULL}


def test_a_window_that_is_not_used_is_none() -> None:
    """Qwen2 tells a window and that it is off."""
    found = architecture_of({**SMALL, "sliding_window": 4096, "use_sliding_window": False})
    assert found.layers[0] == Attention(kv_heads=3, head_dim=64)


def test_a_multimodal_model_is_read_by_its_text_part() -> None:
    """The shape that the KV cache has is inside ``text_config``."""
    assert architecture_of({"model_type": "gemma3", "text_config": SMALL}) == architecture_of(SMALL)


def test_a_pattern_gives_every_sixth_layer_all_tokens() -> None:
    """Gemma 3 has five local layers for one that sees all."""
    kinds = Counter(layer.kind for layer in architecture_of(MODELS["Gemma-3-27B"]).layers)
    assert kinds == {AttentionKind.WINDOW: 52, AttentionKind.FULL: 10}


def test_bits_of_quantised_weights_are_those_of_their_method() -> None:
    """A number in the settings wins; experts alone are quantised by MXFP4."""
    four = architecture_of({**SMALL, "quantization_config": {"quant_method": "awq", "bits": 4}})
    assert (four.bits, four.expert_bits) == (4.5, 4.5)
    groups = {"group_0": {"weights": {"num_bits": 4}}, "group_1": {"weights": {"num_bits": 6}}}
    packed = {"quant_method": "compressed-tensors", "config_groups": groups}
    assert architecture_of({**SMALL, "quantization_config": packed}).bits == 6.5
    mixed = architecture_of(MODELS["gpt-oss-20b"])
    assert (mixed.bits, mixed.expert_bits) == (16.0, 4.25)
