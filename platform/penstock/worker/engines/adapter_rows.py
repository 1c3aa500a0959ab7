"""Adds an adapter to the rows that ask for it, and to no others: what vLLM's kernels for CPUs get wrong.

In a batch vLLM 0.32 gives each row the number of its adapter's slot, and -1 where it has none; its kernels in plain
torch take -1 for the last slot, so a request to the base beside one to an adapter answers with an adapter. Here rows
are grouped by their slot: those without one are left alone, whatever numbers stand in any slot (a NaN times nothing is
a NaN), and the others need one product for each slot, where vLLM copies the weights for each row.

``adapter_rows_in_worker`` installs it in whichever process runs the model. Written for vLLM 0.32.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

Group = tuple[int, Any]
"""A slot, and the rows of the batch that its adapter is for: a slice, or their numbers."""

_REMEMBERED = 64
"""A step asks for the same groups for each layer: so many batches are remembered, many more than a step has."""


def install() -> None:
    """Group rows by their slots from now on, in this process."""
    from vllm.lora.punica_wrapper import punica_cpu

    for name, one in REPLACED.items():
        getattr(punica_cpu, name)  # a place of vLLM's that is gone is found here, not beside callers
        setattr(punica_cpu, name, one)


def shrink(x: Tensor, weights: Tensor, out: Tensor, groups: Iterable[Group], scale: float) -> None:
    """Write ``x @ weights[slot].T * scale`` to the rows of each slot; nobody reads the others.

    In the model's own precision, as its layers are: on a CPU that is twice as quick as in 32 bits.
    """
    for slot, rows in groups:
        made = linear(x[rows], _of(weights, slot).to(x.dtype)) * scale
        out[rows, : weights.shape[-2]] = made.to(out.dtype)


def expand(x: Tensor, weights: Tensor, out: Tensor, groups: Iterable[Group]) -> None:
    """Add ``x @ weights[slot].T`` to the rows of each slot; the model may have padded its own output.

    In ``x``'s precision, 32 bits: so few columns are quicker so.
    """
    for slot, rows in groups:
        width = min(weights.shape[-2], out.shape[-1])
        more = linear(x[rows], _of(weights, slot).to(x.dtype))[:, :width]
        if isinstance(rows, slice):
            out[rows, :width] += more
        else:
            out[:, :width].index_add_(0, rows, more.to(out.dtype))


def grouped(slots: Sequence[int], lengths: Sequence[int] | None = None) -> tuple[Group, ...]:
    """Return the rows of each slot; ``slots`` are those of single rows, or of runs of rows of these ``lengths``."""
    return _grouped(tuple(slots), tuple(lengths) if lengths is not None else None)


@lru_cache(_REMEMBERED)
def _grouped(slots: tuple[int, ...], lengths: tuple[int, ...] | None) -> tuple[Group, ...]:
    ends = tuple(accumulate(lengths if lengths is not None else (1,) * len(slots)))
    found: dict[int, list[int]] = {}
    for slot, start, end in zip(slots, (0, *ends), ends, strict=False):
        if slot >= 0:
            found.setdefault(slot, []).extend(range(start, end))
    return tuple((slot, _rows(rows)) for slot, rows in found.items())


def _rows(rows: list[int]) -> Any:  # noqa: ANN401
    """Neighbours are a slice, which copies nothing."""
    if rows[-1] - rows[0] == len(rows) - 1:
        return slice(rows[0], rows[-1] + 1)
    return torch.tensor(rows)


def _of(weights: Tensor, slot: int) -> Tensor:
    one = weights[slot]
    return one[0] if one.dim() == 3 else one  # noqa: PLR2004  vLLM keeps an axis of one for layers


# vLLM calls these by position; ``rest`` ends with the scale, or with where to add, how wide, and whether to.


def _bgmv_shrink(x: Tensor, weights: Tensor, out: Tensor, slots: Tensor, scale: float = 1.0) -> None:
    shrink(x, weights, out, grouped(slots.tolist()), scale)


def _bgmv_expand(x: Tensor, weights: Tensor, out: Tensor, slots: Tensor, *rest: bool, **named: bool) -> None:
    expand(x, weights, _into(out, (True, *rest, *named.values())), grouped(slots.tolist()))


def _bgmv_expand_slice(x: Tensor, weights: Tensor, out: Tensor, slots: Tensor, *rest: int) -> None:
    start, size, *_ = rest
    expand(x, weights, _into(out[:, start : start + size], rest), grouped(slots.tolist()))


def _sgmv_shrink(x: Tensor, weights: Tensor, out: Tensor, _: Tensor, *rest: Any) -> None:  # noqa: ANN401
    lengths, slots, *_sizes, scale = rest
    shrink(x, weights, out, grouped(slots.tolist(), lengths.tolist()), scale)


def _sgmv_expand(x: Tensor, weights: Tensor, out: Tensor, _: Tensor, *rest: Any) -> None:  # noqa: ANN401
    lengths, slots, *_sizes = rest
    expand(x, weights, _into(out, rest), grouped(slots.tolist(), lengths.tolist()))


def _sgmv_expand_slice(x: Tensor, weights: Tensor, out: Tensor, _: Tensor, *rest: Any) -> None:  # noqa: ANN401
    lengths, slots, *_sizes, start, size, _adds = rest
    expand(x, weights, _into(out[:, start : start + size], rest), grouped(slots.tolist(), lengths.tolist()))


def _into(out: Tensor, rest: Sequence[Any]) -> Tensor:
    """Return what to add to: what is there, or nothing."""
    return out if rest[-1] else out.zero_()


REPLACED = {
    "bgmv_shrink": _bgmv_shrink,
    "bgmv_expand": _bgmv_expand,
    "bgmv_expand_slice": _bgmv_expand_slice,
    "sgmv_shrink": _sgmv_shrink,
    "sgmv_expand": _sgmv_expand,
    "sgmv_expand_slice": _sgmv_expand_slice,
}
