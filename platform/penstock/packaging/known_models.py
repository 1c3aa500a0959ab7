"""Architectures of public models, which a plan can name without their files. Fields are those of ``config.json``.

The values are from the models' published configurations, as of 2026-11-27; ``tests/unit/packaging`` compares their
parameters and bytes of KV cache with the published figures.
"""

from collections.abc import Mapping

_Fields = Mapping[str, object]


def _dense(  # noqa: PLR0913, PLR0917  the shape of a model
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    intermediate: int,
    vocabulary: int,
    longest: int,
    **more: object,
) -> _Fields:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": intermediate,
        "vocab_size": vocabulary,
        "max_position_embeddings": longest,
        **more,
    }


_TIED = {"tie_word_embeddings": True}
_GEMMA: dict[str, object] = {"model_type": "gemma3_text", "sliding_window": 1024, "sliding_window_pattern": 6}


def _qwen_experts(routed: int) -> dict[str, object]:
    return {"head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": routed}


def _gpt_oss(layers: int, experts: int) -> _Fields:
    kinds = ["sliding_attention", "full_attention"] * (layers // 2)
    routed = {"num_local_experts": experts, "num_experts_per_tok": 4, "quantization_config": {"quant_method": "mxfp4"}}
    window = {"head_dim": 64, "sliding_window": 128, "layer_types": kinds}
    return _dense(layers, 2880, 64, 8, 2880, 201_088, 131_072, **window, **routed)


_DEEPSEEK: dict[str, object] = {
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "first_k_dense_replace": 3,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048,
    "quantization_config": {"quant_method": "fp8"},
}

MODELS: Mapping[str, _Fields] = {
    "SmolLM2-135M": _dense(30, 576, 9, 3, 1536, 49_152, 8192, **_TIED),
    "Qwen2.5-1.5B": _dense(28, 1536, 12, 2, 8960, 151_936, 32_768, **_TIED),
    "Qwen2.5-7B": _dense(28, 3584, 28, 4, 18_944, 152_064, 32_768),
    "Llama-3.1-8B": _dense(32, 4096, 32, 8, 14_336, 128_256, 131_072),
    "Llama-3.1-70B": _dense(80, 8192, 64, 8, 28_672, 128_256, 131_072),
    "Llama-3.1-405B": _dense(126, 16_384, 128, 8, 53_248, 128_256, 131_072),
    "Llama-2-7B": _dense(32, 4096, 32, 32, 11_008, 32_000, 4096),
    "Falcon-7B": _dense(32, 4544, 71, 1, 18_176, 65_024, 2048, model_type="falcon", tie_word_embeddings=False),
    "Mistral-Nemo-12B": _dense(40, 5120, 32, 8, 14_336, 131_072, 131_072, head_dim=128),
    "Mixtral-8x7B": _dense(32, 4096, 32, 8, 14_336, 32_000, 32_768, num_local_experts=8, num_experts_per_tok=2),
    "Qwen3-8B": _dense(36, 4096, 32, 8, 12_288, 151_936, 40_960, head_dim=128),
    "Qwen3-32B": _dense(64, 5120, 64, 8, 25_600, 151_936, 40_960, head_dim=128),
    "Qwen3-30B-A3B": _dense(48, 2048, 32, 4, 6144, 151_936, 40_960, **_qwen_experts(768)),
    "Qwen3-235B-A22B": _dense(94, 4096, 64, 4, 12_288, 151_936, 40_960, **_qwen_experts(1536)),
    "Phi-4": _dense(40, 5120, 40, 10, 17_920, 100_352, 16_384),
    "Gemma-3-27B": _dense(62, 5376, 32, 16, 21_504, 262_208, 131_072, head_dim=128, **_GEMMA),
    "Gemma-3-4B": _dense(34, 2560, 8, 4, 10_240, 262_208, 131_072, head_dim=256, **_GEMMA),
    "gpt-oss-20b": _gpt_oss(24, 32),
    "gpt-oss-120b": _gpt_oss(36, 128),
    "DeepSeek-V3": _dense(61, 7168, 128, 128, 18_432, 129_280, 163_840, **_DEEPSEEK),
}
