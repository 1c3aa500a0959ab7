"""Applies LoRA adapters to the rows of their own requests; vLLM's CPU kernels do not.

In a batch vLLM 0.32 gives each row its adapter's slot, -1 for none; its plain torch kernels read -1 as the last slot,
so a base request beside an adapter request answers with the adapter. Here rows are grouped by slot; rows without a slot
are skipped (a NaN times 0 is NaN).
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

Wrapper = Any
"""vLLM's wrapper of a layer, untyped here."""
Group = tuple[int, Any]
"""A slot, and its adapter's rows in the batch: a slice, or row numbers."""

_REMEMBERED = 64
"""Batches whose groups are cached, since each layer of a step asks for the same ones; more than a step has."""
_GROUPS, _MATRICES = "penstock_groups", "penstock_matrices"
"""Attributes cached on vLLM's wrapper: a batch's rows by slot, and layers' matrices."""


class Product(NamedTuple):
    """``x @ down.T @ up``; without ``down``, ``x`` is already projected."""

    down: Tensor | None
    up: Tensor


class Matrices:
    def __init__(self) -> None:
        self._made: dict[tuple[int, int], tuple[tuple[object, ...], Product | None]] = {}

    def of(self, downs: Sequence[Tensor], ups: Sequence[Tensor], slot: int, dtype: torch.dtype) -> Product | None:
        state = (dtype, *(one._version for one in (*downs, *ups)))  # noqa: SLF001  counts writes, also to a part
        key = (ups[0].data_ptr(), slot)
        made = self._made.get(key)
        if made is None or made[0] != state:
            made = self._made[key] = (
                state,
                _joined([_of(one, slot) for one in downs], [_of(one, slot) for one in ups], dtype),
            )
        return made[1]


def add(x: Tensor, out: Tensor, groups: Iterable[Group], product: Callable[[int], Product | None]) -> None:
    for slot, rows in groups:
        one = product(slot)
        if one is None:
            continue
        width = min(one.up.shape[-1], out.shape[-1])
        between, up, into = x[rows], one.up[:, :width], out[:, :width]
        if one.down is not None:
            between = linear(between, one.down)
        if not isinstance(rows, slice):
            into.index_add_(0, rows, (between @ up).to(out.dtype))
        elif out.dtype == up.dtype:
            into[rows].addmm_(between, up)
        else:
            into[rows] += between @ up


def grouped(slots: Sequence[int]) -> tuple[Group, ...]:
    """Rows by adapter slot; those marked -1 use no adapter and are left out."""
    return _grouped(tuple(slots))


@lru_cache(_REMEMBERED)
def _grouped(slots: tuple[int, ...]) -> tuple[Group, ...]:
    found: dict[int, list[int]] = {}
    for row, slot in enumerate(slots):
        if slot >= 0:
            found.setdefault(slot, []).append(row)
    return tuple((slot, _rows(rows)) for slot, rows in found.items())


def _rows(rows: list[int]) -> Any:  # noqa: ANN401
    """Adjacent ones as a slice, which torch does not copy."""
    if rows[-1] - rows[0] == len(rows) - 1:
        return slice(rows[0], rows[-1] + 1)
    return torch.tensor(rows)


def _joined(downs: Sequence[Tensor], ups: Sequence[Tensor], dtype: torch.dtype) -> Product | None:
    if not all(any(bool(one.any()) for one in side) for side in (downs, ups) if side):
        return None
    up = torch.block_diag(*(one.to(dtype) for one in ups)).T.contiguous()
    return Product(torch.cat(list(downs)).to(dtype).contiguous() if downs else None, up)


def _of(weights: Tensor, slot: int) -> Tensor:
    one = weights[slot]
    return one[0] if one.dim() == 3 else one  # noqa: PLR2004  vLLM keeps an axis of one for layers


# vLLM's wrapper has these three. What else it tells them is what matrices tell as well, how wide each part is.


def _add_lora_linear(
    self: Wrapper, y: Tensor, x: Tensor, downs: Sequence[Tensor], ups: Sequence[Tensor], scale: float, *_: object
) -> None:
    _add(self, y, x if scale == 1.0 else x * scale, downs, ups, self.token_lora_indices)


def _add_lora_logits(self: Wrapper, y: Tensor, x: Tensor, down: Tensor, up: Tensor, scale: float) -> None:
    _add(self, y, x if scale == 1.0 else x * scale, (down,), (up,), self.sampler_indices)


def _add_lora_embedding(self: Wrapper, y: Tensor, x: Tensor, up: Tensor, **_: object) -> None:
    _add(self, y, x, (), (up,), self.token_lora_indices)


def _add(self: Wrapper, y: Tensor, x: Tensor, downs: Sequence[Tensor], ups: Sequence[Tensor], slots: Tensor) -> None:
    x, out = x.view(-1, x.shape[-1]), y.view(-1, y.shape[-1])
    remembered, batch = self.__dict__.setdefault(_GROUPS, {}), (slots.data_ptr(), len(x))
    groups = remembered.get(batch)
    if groups is None:
        groups = remembered[batch] = grouped(slots[: len(x)].tolist())
    if groups:
        made = self.__dict__.setdefault(_MATRICES, Matrices())
        add(x, out, groups, lambda slot: made.of(downs, ups, slot, x.dtype))


def _forgetting(update: Callable[..., None]) -> Callable[..., None]:
    """The wrapped setter drops the previous batch's groups."""

    def updated(self: Wrapper, *given: object, **named: object) -> None:
        self.__dict__[_GROUPS] = {}
        update(self, *given, **named)

    return updated


REPLACED = {
    "add_lora_linear": _add_lora_linear,
    "add_lora_logits": _add_lora_logits,
    "add_lora_embedding": _add_lora_embedding,
}


def install() -> None:
    from vllm.lora.punica_wrapper.punica_cpu import PunicaWrapperCPU

    for name, one in REPLACED.items():
        getattr(PunicaWrapperCPU, name)  # a place of vLLM's that is gone is found here, not beside callers
        setattr(PunicaWrapperCPU, name, one)
    PunicaWrapperCPU.update_metadata = _forgetting(PunicaWrapperCPU.update_metadata)
