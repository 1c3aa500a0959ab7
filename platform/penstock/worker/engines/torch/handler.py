"""Interface for a model's author: input to tensors, the model itself, output to answer (ADR 0071).

``preprocess`` and ``postprocess`` take one item and run on several CPU threads; ``forward`` takes a batch in a thread
beside the event loop, without gradients.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file

from penstock.domain.models.model import HandlerSettings

Features = Mapping[str, torch.Tensor]
"""Tensors by name: of one item without batch dimension, or of a batch, with the batch as first dimension."""
Given = str | bytes | Sequence[int] | Features
"""One item as received: a text or a ``data:`` URL, an element of a ``BYTES`` tensor, token ids, or a row of tensors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """``folder`` holds the version's files, already verified."""

    folder: Path
    settings: HandlerSettings
    device: torch.device
    dtype: torch.dtype
    max_tokens: int
    """The longest accepted text."""

    def weights(self) -> dict[str, torch.Tensor]:
        """The weights on the device; floats in the serving dtype."""
        found: dict[str, torch.Tensor] = {}
        for path in sorted(self.folder.glob("*.safetensors")):
            found |= load_file(path, device=str(self.device))
        return {name: one.to(self.dtype) if one.is_floating_point() else one for name, one in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    features: Features
    tokens: int
    """The item's tokens for limits and price."""
    cost: int = 1
    """The item's computed tokens or pixels, without padding."""
    padded: int = 0
    """The tokens or pixels after padding; 0 without padding."""


class Handler(ABC):
    """Methods raise ``BadRequest`` for a bad input; any other error counts as the item's failure."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @abstractmethod
    def preprocess(self, given: Given) -> Prepared:
        """Tensors on the CPU; raises ``BadRequest`` naming the fault."""

    def is_quick(self, given: Given) -> bool:
        """Less than half a millisecond: it then runs on the event loop."""
        del given
        return False

    @abstractmethod
    def forward(self, batch: Features) -> Features:
        """Return outputs by their declared names, one row per item."""

    @abstractmethod
    def example(self) -> Given:
        """Return a small typical input for warm-up and probes."""

    def postprocess(self, row: Features) -> Features:
        return row
