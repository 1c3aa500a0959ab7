"""A text classifier: a linear head on a sentence encoder's vectors; it returns class probabilities.

``scripts/topics`` makes the head; it is computed in float32 whatever the encoder's dtype.
"""

import torch
from safetensors.torch import load_file
from torch.nn import functional

from penstock.domain.errors import ArtifactRefused
from penstock.worker.engines.torch.handler import Features, Given, Handler, Model, Prepared
from penstock.worker.engines.torch.handlers.sentences import EMBEDDING, SentenceEncoder

SCORES = "scores"
HEAD, WEIGHT, BIAS = "head.safetensors", "head.weight", "head.bias"


class TextClassifier(Handler):
    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._encoder = SentenceEncoder(model)
        self._weight, self._bias = _head(model)

    def preprocess(self, given: Given) -> Prepared:
        return self._encoder.preprocess(given)

    def is_quick(self, given: Given) -> bool:
        return self._encoder.is_quick(given)

    def forward(self, batch: Features) -> Features:
        vectors = self._encoder.forward(batch)[EMBEDDING]
        return {SCORES: functional.linear(vectors, self._weight, self._bias).softmax(-1)}

    def example(self) -> Given:
        return self._encoder.example()


def _head(model: Model) -> tuple[torch.Tensor, torch.Tensor]:
    path = model.folder / HEAD
    found = load_file(path, device=str(model.device)) if path.is_file() else {}
    if WEIGHT not in found or BIAS not in found:
        raise ArtifactRefused(f"{HEAD} with {WEIGHT} and {BIAS} is missing: this handler needs a head on its encoder")
    return found[WEIGHT].float(), found[BIAS].float()
