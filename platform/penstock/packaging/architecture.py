"""Reads a model's architecture from its ``config.json``: attention of each layer, parameters, bits of the weights.

Field names are those of Hugging Face's configurations. An architecture that is not known here is refused by name: a
guess would plan memory that the engine does not use.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.domain.errors import ArtifactRefused
from penstock.domain.models.architecture import Architecture, Attention, AttentionKind, Parameters
from penstock.formats.safetensors_header import reader_of, tensors_of

MOST = {
    "num_hidden_layers": 1_000,
    "hidden_size": 1 << 18,
    "num_attention_heads": 4_096,
    "num_key_value_heads": 4_096,
    "head_dim": 4_096,
    "intermediate_size": 1 << 21,
    "vocab_size": 1 << 24,
    "experts": 1 << 14,
}
"""The largest accepted values, some ten times those of the largest public models."""
BITS = {"fp8": 8.0, "compressed-tensors": 8.0, "gptq": 4.5, "awq": 4.5, "mxfp4": 4.25, "bitsandbytes": 4.5}
"""Bits of a weight by quantisation method, scales included, if the settings give no number."""
_STATES = ("mamba", "ssm", "linear_attention", "recurrent", "rwkv", "conv")
_EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")


def architecture_of(config: Mapping[str, object]) -> Architecture:
    """Raises ``ArtifactRefused`` with the field that is missing, impossible or unknown."""
    inner = config.get("text_config")
    told = _Config({**config, **inner} if isinstance(inner, Mapping) else config)
    heads = told.number("num_attention_heads", "n_head")
    hidden = told.number("hidden_size", "n_embd")
    layers = _layers(told, hidden, heads)
    experts = told.maybe(*_EXPERTS)
    bits, expert_bits = _bits(told)
    dense = told.maybe("intermediate_size", "ffn_hidden_size") or (0 if experts else 4 * hidden)
    routed = told.maybe("moe_intermediate_size") or dense
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
        """Return the first of these fields as a whole number within its bound; 0 if none is given."""
        for name in names:
            value = self.fields.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise ArtifactRefused(f"config.json: {name} is no whole number")
            most = MOST.get(name, MOST["experts"] if name in _EXPERTS else 1 << 30)
            if not 0 <= value <= most:
                raise ArtifactRefused(f"config.json: {name} is not between 0 and {most:,}")
            return value
        return 0

    def number(self, *names: str) -> int:
        if not (found := self.maybe(*names)):
            raise ArtifactRefused(f"config.json lacks {names[0]}: without it the model's shape is not known")
        return found

    def text(self, name: str) -> str:
        value = self.fields.get(name)
        return value if isinstance(value, str) else ""


def _layers(told: _Config, hidden: int, heads: int) -> tuple[Attention, ...]:
    count = told.number("num_hidden_layers", "n_layer")
    if rank := told.maybe("kv_lora_rank"):
        latent = Attention(kind=AttentionKind.LATENT, head_dim=rank + told.number("qk_rope_head_dim"))
        return (latent,) * count
    head_dim = told.maybe("head_dim") or hidden // heads
    one = Attention(kv_heads=_kv_heads(told, heads), head_dim=head_dim)
    return tuple(_attention(told, one, kind) for kind in _kinds(told, count))


def _kv_heads(told: _Config, heads: int) -> int:
    if told.fields.get("multi_query") is True and not told.fields.get("new_decoder_architecture"):
        return 1
    return told.maybe("num_key_value_heads", "num_kv_heads") or heads


def _kinds(told: _Config, count: int) -> tuple[str, ...]:
    """Return the attention of each layer by the names of ``layer_types``, which wins over a pattern."""
    named = told.fields.get("layer_types") or told.fields.get("layers_block_type")
    if isinstance(named, list | tuple):
        if len(named) < count:
            raise ArtifactRefused(f"config.json: layer_types names {len(named)} of {count} layers")
        return tuple(str(name) for name in named[:count])
    if _has_window(told) and (every := told.maybe("sliding_window_pattern")):
        return tuple("full_attention" if (at + 1) % every == 0 else "sliding_attention" for at in range(count))
    return ("sliding_attention" if _has_window(told) else "full_attention",) * count


def _has_window(told: _Config) -> bool:
    return bool(told.maybe("sliding_window")) and told.fields.get("use_sliding_window") is not False


def _attention(told: _Config, one: Attention, kind: str) -> Attention:
    match kind:
        case "full_attention" | "attention":
            return one
        case "sliding_attention":
            reach = told.number("sliding_window")
            return Attention(kind=AttentionKind.WINDOW, kv_heads=one.kv_heads, head_dim=one.head_dim, reach=reach)
    known = "state layers have no KV cache that grows" if any(one in kind for one in _STATES) else "not known here"
    raise ArtifactRefused(
        f"config.json: attention of kind {kind[:40]!r} can't be planned ({known}): measure the engine"
    )


def _parameters(told: _Config, layers: tuple[Attention, ...], heads: int, dense: int, routed: int) -> Parameters:
    hidden, count = told.number("hidden_size", "n_embd"), len(layers)
    embedding = told.number("vocab_size") * hidden
    matrices = 2 if told.text("model_type") in ("falcon", "gpt2", "gpt_neox", "opt", "bloom") else 3
    experts = told.maybe(*_EXPERTS)
    with_dense = min(count, told.maybe("first_k_dense_replace")) if experts else count
    with_experts = count - with_dense
    expert = matrices * hidden * routed
    shared = told.maybe("n_shared_experts") * expert + told.maybe("shared_expert_intermediate_size") * 3 * hidden
    return Parameters(
        embedding=embedding,
        head=0 if told.fields.get("tie_word_embeddings", _ties(told)) else embedding,
        dense=sum(_attention_weights(told, layer, hidden, heads) for layer in layers)
        + with_dense * matrices * hidden * dense
        + with_experts * (shared + experts * hidden),
        experts=with_experts * experts * expert,
        active_experts=with_experts * min(experts, told.maybe("num_experts_per_tok") or 1) * expert,
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


def _bits(told: _Config) -> tuple[float, float]:
    """Return the bits of a layer's weight, and of a routed expert's."""
    settings = told.fields.get("quantization_config")
    if not isinstance(settings, Mapping):
        wide = 32.0 if told.text("torch_dtype") == "float32" or told.text("dtype") == "float32" else 16.0
        return wide, wide
    method = str(settings.get("quant_method", ""))
    if method not in BITS:
        raise ArtifactRefused(f"config.json: quantisation {method[:40]!r} can't be planned; known: {', '.join(BITS)}")
    exact = settings.get("bits")
    bits = exact + 0.5 if isinstance(exact, int) and 2 <= exact <= 8 else BITS[method]  # noqa: PLR2004
    return (16.0, bits) if method == "mxfp4" else (bits, bits)


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
