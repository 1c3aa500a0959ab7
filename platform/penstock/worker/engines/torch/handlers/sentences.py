"""Sentence encoders of BERT's kind: the mean of token vectors, normalised (Reimers and Gurevych, 1908.10084).

The encoder is written from the paper (Devlin and others, 1810.04805); parameter names are those of the published
weights.
"""

from pathlib import Path
from typing import cast

import msgspec
import torch
from torch import nn
from torch.nn import functional

from penstock.domain.errors import ArtifactRefused
from penstock.worker.engines.torch import texts
from penstock.worker.engines.torch.handler import Features, Given, Handler, Model, Prepared


def numbers(path: Path) -> dict[str, float]:
    found = msgspec.json.decode(path.read_bytes())
    return {name: value for name, value in found.items() if isinstance(value, int | float)}


TEXT, EMBEDDING = "text", "embedding"
_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")
_POSITIONS, _TYPES = "max_position_embeddings", "type_vocab_size"


class _Embeddings(nn.Module):
    def __init__(self, sizes: dict[str, int], epsilon: float) -> None:
        super().__init__()
        width = sizes["hidden_size"]
        self.word_embeddings = nn.Embedding(sizes["vocab_size"], width)
        self.position_embeddings = nn.Embedding(sizes[_POSITIONS], width)
        self.token_type_embeddings = nn.Embedding(sizes[_TYPES], width)
        self.LayerNorm = nn.LayerNorm(width, eps=epsilon)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        position = self.position_embeddings.weight[: ids.shape[1]]
        return cast(
            "torch.Tensor", self.LayerNorm(self.word_embeddings(ids) + position + self.token_type_embeddings.weight[0])
        )


class _Layer(nn.Module):
    def __init__(self, sizes: dict[str, int], epsilon: float) -> None:
        super().__init__()
        width, wide = sizes["hidden_size"], sizes["intermediate_size"]
        self._heads = sizes["num_attention_heads"]
        own = nn.ModuleDict({name: nn.Linear(width, width) for name in ("query", "key", "value")})
        out = nn.ModuleDict({"dense": nn.Linear(width, width), "LayerNorm": nn.LayerNorm(width, eps=epsilon)})
        self.attention = nn.ModuleDict({"self": own, "output": out})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, wide)})
        self.output = nn.ModuleDict({"dense": nn.Linear(wide, width), "LayerNorm": nn.LayerNorm(width, eps=epsilon)})

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        own, out = cast("nn.ModuleDict", self.attention["self"]), cast("nn.ModuleDict", self.attention["output"])
        query, key, value = (self._split(own[name](x)) for name in ("query", "key", "value"))
        seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        x = out["LayerNorm"](out["dense"](seen.transpose(1, 2).flatten(2)) + x)
        wide = functional.gelu(self.intermediate["dense"](x))
        return cast("torch.Tensor", self.output["LayerNorm"](self.output["dense"](wide) + x))

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (self._heads, -1)).transpose(1, 2)


class Encoder(nn.Module):
    def __init__(self, sizes: dict[str, int], epsilon: float) -> None:
        super().__init__()
        self.embeddings = _Embeddings(sizes, epsilon)
        layers = nn.ModuleList(_Layer(sizes, epsilon) for _ in range(sizes["num_hidden_layers"]))
        self.encoder = nn.ModuleDict({"layer": layers})

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x, seen = self.embeddings(ids), mask[:, None, None, :]
        for layer in cast("nn.ModuleList", self.encoder["layer"]):
            x = layer(x, seen)
        return cast("torch.Tensor", x)


def encoder_of(model: Model, weights: dict[str, torch.Tensor]) -> Encoder:
    found = numbers(model.folder / "config.json")
    missing = [name for name in (*_SIZES, _POSITIONS, _TYPES) if name not in found]
    if missing:
        raise ArtifactRefused(f"config.json lacks {missing[0]}: this handler needs the settings of a BERT encoder")
    with torch.device("meta"):
        encoder = Encoder({name: int(value) for name, value in found.items()}, found.get("layer_norm_eps", 1e-12))
    own = {name: one for name, one in weights.items() if name in encoder.state_dict()}
    encoder.load_state_dict(own, assign=True)
    return encoder.eval().requires_grad_(requires_grad=False)


def pooled(vectors: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    part = mask.unsqueeze(-1).to(vectors.dtype)
    mean = (vectors * part).sum(1) / part.sum(1).clamp(min=1e-9)
    return functional.normalize(mean.float(), dim=-1)


class SentenceEncoder(Handler):
    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._encoder = encoder_of(model, model.weights())
        self._texts = texts.load(model.folder, model.settings.buckets, model.max_tokens)

    def preprocess(self, given: Given) -> Prepared:
        return self._texts.prepare(given, TEXT)

    def is_quick(self, given: Given) -> bool:
        return texts.is_quick(given)

    def forward(self, batch: Features) -> Features:
        ids, mask = batch[texts.IDS], batch[texts.MASK]
        return {EMBEDDING: pooled(self._encoder(ids, mask), mask)}

    def example(self) -> Given:
        return "A kitten sleeps on the sofa."
