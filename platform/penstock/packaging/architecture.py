"""Reads a model's architecture from its ``config.json``: attention of each layer, parameters, bits of the weights.

Field names are those of Hugging Face's configurations. An architecture that is not known here is refused by name: a
guess would plan memory that the engine does not use.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.domain.errors import ArtifactRefused
from penstock.domain.models.architecture import Architecture, Attention, AttentionKind, Parameters
from penstock.formats.safetensors_header import reader_of, tensors_of

BOUNDS = {
    "num_hidden_layers": (1, 1_000),
    "hidden_size": (1, 1 << 18),
    "num_attention_heads": (1, 4_096),
    "num_key_value_heads": (1, 4_096),
    "num_kv_heads": (1, 4_096),
    "head_dim": (8, 4_096),
    "intermediate_size": (1, 1 << 21),
    "vocab_size": (1, 1 << 24),
    "max_position_embeddings": (1, 1 << 30),
    **dict.fromkeys(("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts"), (0, 1 << 14)),
}
"""Accepted values; the largest are some ten times those of the largest public models."""
BITS = {
    "fp8": {8: 8.0},
    "compressed-tensors": {8: 8.0, **{bits: bits + 0.5 for bits in range(2, 8)}},
    "gptq": {4: 4.5, 8: 8.5},
    "awq": {4: 4.5},
    "mxfp4": {4: 4.25},
}
"""Bits of a weight, scales included, by quantisation method and the bits that vLLM 0.32 has for it; the first if the
settings name none.
"""
_NO_KV = re.compile(
    r"mamba|(^|_)ssm_|state_size|^linear_(num|conv|attn|key)|lru_width|conv_L_cache|conv_kernel|^block_types|attn_type_list"
    r"|hybrid_override_pattern|attn_layer_(period|indices)|full_attention_interval|attention_chunk_size|is_encoder_decoder"
    r"|^num_kv_shared_layers"
)
"""Fields of models with state, chunked, cross-attention or shared layers: not each has a KV cache that grows."""
_STATES = ("mamba", "ssm", "linear_attention", "recurrent", "rwkv", "conv")
_EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
_LAYER_TYPES = ("layer_types", "layers_block_type")
_WIDTH_FIELDS = ("intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner")
_FOURFOLD = ("gpt2", "gptj", "gpt_bigcode", "codegen", "falcon", "bloom")
"""Models whose inner layer is four times as wide as the hidden one, if their configuration names no width."""
_WIDTHS = {"bfloat16": 16.0, "float16": 16.0, "half": 16.0, "float32": 32.0, "float": 32.0, "auto": 16.0}
_MEASURE = "measure the engine (penstock bench engine)"


def architecture_of(config: Mapping[str, object]) -> Architecture:
    """Raises ``ArtifactRefused`` with the field that is missing, impossible or unknown."""
    inner = config.get("text_config")
    told = _Config({**config, **inner} if isinstance(inner, Mapping) else config)
    _check_kind(told)
    heads = told.number("num_attention_heads", "n_head")
    hidden = told.number("hidden_size", "n_embd")
    layers = _layers(told, hidden, heads)
    experts = told.maybe(*_EXPERTS)
    if experts and told.number("num_experts_per_tok") > experts:
        raise ArtifactRefused(
            f"config.json: num_experts_per_tok is more than the {experts} experts: correct one of them"
        )
    bits, expert_bits = _bits(told)
    dense = _dense(told, hidden, experts)
    others = () if told.maybe("n_routed_experts") else _WIDTH_FIELDS
    routed = told.number("moe_intermediate_size", *others) if experts else dense
    return Architecture(
        hidden=hidden,
        intermediate=max(dense, routed * (told.maybe("num_experts_per_tok") if experts else 1)),
        vocabulary=told.number("vocab_size"),
        heads=heads,
        longest=told.maybe("max_position_embeddings", "model_max_length", "n_positions"),
        layers=layers,
        parameters=_parameters(told, layers, heads, dense, routed),
        bits=bits,
        expert_bits=expert_bits,
    )


@dataclass(frozen=True, slots=True)
class _Config:
    fields: Mapping[str, object]

    def maybe(self, *names: str) -> int:
        """The first of these fields within its bound; 0 if none is given."""
        for name in names:
            value = self.fields.get(name)
            if value is None:
                continue
            least, most = BOUNDS.get(name, (0, 1 << 30))
            if isinstance(value, bool) or not isinstance(value, int):
                raise ArtifactRefused(f"config.json: {name} is no whole number: give {least:,} to {most:,}")
            if not least <= value <= most:
                raise ArtifactRefused(f"config.json: {name} is not between {least:,} and {most:,}: correct it")
            return value
        return 0

    def is_on(self, name: str, *, default: bool) -> bool:
        value = self.fields.get(name)
        if not isinstance(value, bool | None):
            raise ArtifactRefused(f"config.json: {name} is neither true nor false: correct it")
        return default if value is None else value

    def number(self, *names: str) -> int:
        if not (found := self.maybe(*names)):
            raise ArtifactRefused(f"config.json lacks {names[0]}: the model's shape is unknown without it, so add it")
        return found

    def text(self, name: str) -> str:
        value = self.fields.get(name)
        return value if isinstance(value, str) else ""


def _check_kind(told: _Config) -> None:
    """Some layer has no KV cache, or another one than the plan's."""
    named = [name for name, value in told.fields.items() if value and _NO_KV.search(name)]
    if told.text("model_type").startswith(("mamba", "rwkv", "bert", "roberta", "xlm-roberta")):
        named.append("model_type")
    if named:
        raise ArtifactRefused(
            f"config.json: {named[0][:40]} names layers with another cache than KV of each token: {_MEASURE}"
        )


def _layers(told: _Config, hidden: int, heads: int) -> tuple[Attention, ...]:
    count = told.number("num_hidden_layers", "n_layer")
    if rank := told.maybe("kv_lora_rank"):
        latent = Attention(kind=AttentionKind.LATENT, head_dim=rank + told.number("qk_rope_head_dim"))
        return (latent,) * count
    head_dim = told.maybe("head_dim") or hidden // heads
    if head_dim % 8 or (hidden % heads and not told.maybe("head_dim")):
        raise ArtifactRefused(
            f"config.json: head_dim, or hidden_size over num_attention_heads, is {head_dim} or a fraction: vLLM needs a"
            " multiple of 8"
        )
    one = Attention(kv_heads=_kv_heads(told, heads), head_dim=head_dim)
    return tuple(_attention(told, one, kind) for kind in _kinds(told, count))


def _kv_heads(told: _Config, heads: int) -> int:
    if told.fields.get("multi_query") is True and not told.fields.get("new_decoder_architecture"):
        return 1
    found = told.maybe("num_key_value_heads", "num_kv_heads") or heads
    if heads % found:
        raise ArtifactRefused(
            f"config.json: num_key_value_heads, {found}, does not divide num_attention_heads, {heads}: correct it"
        )
    return found


def _kinds(told: _Config, count: int) -> tuple[str, ...]:
    """Read ``layer_types``, which wins over a pattern."""
    named = next((found for name in _LAYER_TYPES if (found := told.fields.get(name)) is not None), None)
    if named is not None:
        if not isinstance(named, list | tuple) or len(named) != count:
            size = len(named) if isinstance(named, list | tuple) else "none"
            raise ArtifactRefused(f"config.json: layer_types names {size} of {count} layers: name each once")
        return tuple(str(name) for name in named)
    if _has_window(told) and (every := told.maybe("sliding_window_pattern")):
        return tuple("full_attention" if (at + 1) % every == 0 else "sliding_attention" for at in range(count))
    return ("sliding_attention" if _has_window(told) else "full_attention",) * count


def _has_window(told: _Config) -> bool:
    return bool(told.maybe("sliding_window")) and told.is_on("use_sliding_window", default=True)


def _attention(told: _Config, one: Attention, kind: str) -> Attention:
    match kind:
        case "full_attention" | "attention":
            return one
        case "sliding_attention" if told.fields.get("sliding_window") == 0:  # as in vLLM: no window
            return one
        case "sliding_attention":
            reach = told.number("sliding_window")
            return Attention(kind=AttentionKind.WINDOW, kv_heads=one.kv_heads, head_dim=one.head_dim, reach=reach)
    known = "state layers have no KV cache that grows" if any(one in kind for one in _STATES) else "not known here"
    raise ArtifactRefused(f"config.json: attention of kind {kind[:40]!r} can't be planned ({known}): {_MEASURE}")


def _parameters(told: _Config, layers: tuple[Attention, ...], heads: int, dense: int, routed: int) -> Parameters:
    hidden, count = told.number("hidden_size", "n_embd"), len(layers)
    embedding = told.number("vocab_size") * hidden
    matrices = 2 if told.text("model_type") in ("falcon", "gpt2", "gpt_neox", "opt", "bloom") else 3
    experts = told.maybe(*_EXPERTS)
    with_dense = told.maybe("first_k_dense_replace") if experts else count
    if with_dense > count:
        raise ArtifactRefused(
            f"config.json: first_k_dense_replace is more than the {count} layers: correct one of them"
        )
    with_experts = count - with_dense
    expert = matrices * hidden * routed
    shared = told.maybe("n_shared_experts") * expert + told.maybe("shared_expert_intermediate_size") * 3 * hidden
    return Parameters(
        embedding=embedding,
        head=0 if told.is_on("tie_word_embeddings", default=_ties(told)) else embedding,
        dense=sum(_attention_weights(told, layer, hidden, heads) for layer in layers)
        + with_dense * matrices * hidden * dense
        + with_experts * (shared + experts * hidden),
        experts=with_experts * experts * expert,
        active_experts=with_experts * told.maybe("num_experts_per_tok") * expert,
    )


def _ties(told: _Config) -> bool:
    return told.text("model_type") in ("gemma", "gemma2", "gemma3", "gemma3_text", "gpt2", "opt", "bloom", "falcon")


def _attention_weights(told: _Config, layer: Attention, hidden: int, heads: int) -> int:
    if layer.kind is not AttentionKind.LATENT:
        return 2 * hidden * layer.head_dim * (heads + layer.kv_heads)
    rope, rank = told.number("qk_rope_head_dim"), told.number("kv_lora_rank")
    nope, value = told.number("qk_nope_head_dim"), told.number("v_head_dim")
    queries = heads * (nope + rope)
    low = told.maybe("q_lora_rank")
    ask = hidden * low + low * queries if low else hidden * queries
    return ask + hidden * (rank + rope) + rank * heads * (nope + value) + heads * value * hidden


def _dense(told: _Config, hidden: int, experts: int) -> int:
    if experts:
        return told.maybe(*_WIDTH_FIELDS)
    fourfold = 4 * hidden if told.text("model_type") in _FOURFOLD else 0
    return told.maybe(*_WIDTH_FIELDS) or fourfold or told.number(*_WIDTH_FIELDS)


def _wide(told: _Config) -> float:
    given = [value for name in ("torch_dtype", "dtype") if (value := told.fields.get(name))]
    if len({str(value).removeprefix("torch.") for value in given}) > 1:
        raise ArtifactRefused("config.json: torch_dtype and dtype differ: correct one of them")
    named = given[0] if given else "bfloat16"
    if not isinstance(named, str) or (bits := _WIDTHS.get(named.removeprefix("torch."))) is None:
        raise ArtifactRefused(
            f"config.json: torch_dtype {str(named)[:20]!r} can't be planned: name {', '.join(_WIDTHS)}"
        )
    return bits


def _bits(told: _Config) -> tuple[float, float]:
    """Return the bits of a layer's weight, and of a routed expert's."""
    settings = told.fields.get("quantization_config")
    if settings is None:
        wide = _wide(told)
        return wide, wide
    method = settings.get("quant_method") if isinstance(settings, Mapping) else settings
    if not isinstance(settings, Mapping) or not isinstance(method, str) or method not in BITS:
        raise ArtifactRefused(
            f"config.json: quantisation {str(method)[:40]!r} can't be planned: convert it to one of {', '.join(BITS)}"
        )
    known, named = BITS[method], _bits_named(settings)
    for one in named:
        if one not in tuple(known):
            raise ArtifactRefused(
                f"config.json: quantization_config: vLLM has no {method} of {repr(one)[:20]} bits: convert the weights"
                f" to {' or '.join(str(bits) for bits in sorted(known))}"
            )
    stored = known[max(named or [next(iter(known))])]
    return (16.0, stored) if method == "mxfp4" else (stored, stored)


def _bits_named(settings: Mapping[str, object]) -> list[Any]:
    """Return the bits of all groups of weights that a quantisation names."""
    groups = settings.get("config_groups")
    weights = (
        [one.get("weights") for one in groups.values() if isinstance(one, Mapping)]
        if isinstance(groups, Mapping)
        else []
    )
    found = [
        settings.get("bits"),
        settings.get("w_bit"),
        *(one.get("num_bits") for one in weights if isinstance(one, Mapping)),
    ]
    return [one for one in found if one is not None]


def weight_bytes(folder: Path) -> int:
    """Sum the folder's safetensors files; 0 without one. Raises ``ArtifactRefused`` for a false header."""
    total = 0
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            _, tensors = tensors_of(reader_of(file), path.stat().st_size, path.name)
        total += sum(one.end - one.begin for one in tensors.values())
    return total
