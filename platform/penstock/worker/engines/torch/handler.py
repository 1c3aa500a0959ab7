"""What a model's author writes: how an input becomes tensors, the model itself, how its output is told (ADR 0071).

``preprocess`` and ``postprocess`` work on one item and run on CPU threads, several at once; ``forward`` works on a
batch and runs in a thread beside the event loop, without gradients. None of them knows of HTTP, tenants or batching.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file

from penstock.domain.models.model import HandlerSettings

Features = Mapping[str, torch.Tensor]
"""Tensors by name: of one item without a batch's dimension, or of a batch, whose first dimension it is."""
Given = str | bytes | Sequence[int] | Features
"""One item as it came: a text or a ``data:`` URL, an element of a ``BYTES`` tensor, token ids, or a row of tensors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What a handler is made with. ``folder`` holds the version's verified files."""

    folder: Path
    settings: HandlerSettings
    device: torch.device
    dtype: torch.dtype
    max_tokens: int
    """The longest text that is taken."""

    def weights(self) -> dict[str, torch.Tensor]:
        """Return the version's weights on its device; floats in the dtype that it is served in."""
        found: dict[str, torch.Tensor] = {}
        for path in sorted(self.folder.glob("*.safetensors")):
            found |= load_file(path, device=str(self.device))
        return {name: one.to(self.dtype) if one.is_floating_point() else one for name, one in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """One item, ready for a batch: items of the same shapes share one."""

    features: Features
    tokens: int
    """What it counts as in limits and price."""
    cost: int = 1
    """Tokens or pixels that the model computes for it, without padding."""
    padded: int = 0
    """The tokens or pixels that it was padded to; 0 where nothing is padded."""


class Handler(ABC):
    """One model, loaded. Its own errors of an input are ``BadRequest``; whatever else it raises fails the item."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @abstractmethod
    def preprocess(self, given: Given) -> Prepared:
        """Return the item's tensors on the CPU, or raise ``BadRequest`` naming what is wrong with it."""

    def is_quick(self, given: Given) -> bool:
        """Tell whether to preprocess this takes less than half a millisecond: it is then done where requests are read,
        for two switches of threads would cost more.
        """
        del given
        return False

    @abstractmethod
    def forward(self, batch: Features) -> Features:
        """Return the model's outputs, row by row, by the names that the version describes."""

    @abstractmethod
    def example(self) -> Given:
        """Return an input to warm up with, and to see that it works: the smallest that is typical."""

    def postprocess(self, row: Features) -> Features:
        """Return what is told of one item's outputs."""
        return row
