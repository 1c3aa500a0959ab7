"""Adds an adapter to the rows that ask for it, and to no others: what vLLM's kernels for CPUs get wrong.

In a batch vLLM 0.32 gives each row the number of its adapter's slot, and -1 where it has none; its kernels in plain
torch take -1 for the last slot, so a request to the base beside one to an adapter answers with an adapter. Here rows
are grouped by their slot: those without one are left alone, whatever numbers stand in any slot (a NaN times nothing is
a NaN), and the others need one product for each slot, where vLLM copies the weights for each row.

A step of a small model is a thousand tiny products, each of which costs its call: so the parts of one layer (query, key
and value, say) are joined, once for as long as their slot holds the same adapter, and take two products instead of six.

``adapter_rows_in_worker`` installs it in whichever process runs the model. Written for vLLM 0.32.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

Group = tuple[int, Any]
"""A slot, and the rows of the batch that its adapter is for: a slice, or their numbers."""

_GROUPS, _JOINED = "penstock_groups", "penstock_joined"
"""What vLLM's wrapper is given to remember: a batch's rows by slot, and layers' matrices."""
_REMEMBERED = 64
"""A step asks for the same groups for each layer: so many batches are remembered, many more than a step has."""


def install() -> None:
    """Group rows by their slots from now on, in this process."""
    from vllm.lora.punica_wrapper import punica_cpu

    for name, one in REPLACED.items():
        getattr(punica_cpu, name)  # a place of vLLM's that is gone is found here, not beside callers
        setattr(punica_cpu, name, one)
    wrapper = punica_cpu.PunicaWrapperCPU
    wrapper.update_metadata = _forgetting(wrapper.update_metadata)
    wrapper.add_lora_linear = _add_lora_linear


class Joined:
    """The parts of one layer's adapters, joined: made anew whenever a slot was written to."""

    def __init__(self) -> None:
        """Begin with nothing joined."""
        self._kept: dict[tuple[int, int], tuple[tuple[int, ...], Tensor, Tensor]] = {}

    def of(self, first: Sequence[Tensor], second: Sequence[Tensor], slot: int, dtype: Any) -> tuple[Tensor, Tensor]:  # noqa: ANN401
        """Return both matrices of a slot for rows: ``x @ down @ up`` are the outputs of all parts, side by side."""
        state = tuple(one._version for one in (*first, *second))  # noqa: SLF001  counts writes, also to a part
        key = (first[0].data_ptr(), slot)
        kept = self._kept.get(key)
        if kept is not None and kept[0] == state and kept[1].dtype == dtype:
            return kept[1], kept[2]
        down = torch.cat([_of(one, slot) for one in first]).to(dtype).contiguous()
        up = torch.block_diag(*[_of(one, slot).to(dtype) for one in second]).T.contiguous()
        self._kept[key] = state, down, up
        return down, up


def add(x: Tensor, out: Tensor, groups: Iterable[Group], matrices: Callable[[int], tuple[Tensor, Tensor]]) -> None:
    """Add to the rows of each slot what its adapter makes of them; the model may have padded its own output."""
    for slot, rows in groups:
        down, up = matrices(slot)
        width = min(up.shape[-1], out.shape[-1])
        between, into = linear(x[rows], down), out[:, :width]
        if isinstance(rows, slice):
            into[rows].addmm_(between, up[:, :width])
        else:
            into.index_add_(0, rows, between @ up[:, :width])


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


def _add_lora_linear(
    self: Any,  # noqa: ANN401
    y: Tensor,
    x: Tensor,
    first: Sequence[Tensor],
    second: Sequence[Tensor],
    scale: float,
    *_rest: Any,  # noqa: ANN401  how wide each part is, which its matrix tells as well
) -> None:
    x, out = x.view(-1, x.shape[-1]), y.view(-1, y.shape[-1])
    remembered = self.__dict__.setdefault(_GROUPS, {})
    groups = remembered.get(len(x))
    if groups is None:
        groups = remembered[len(x)] = grouped(self.token_lora_indices[: len(x)].tolist())
    if groups:
        joined = self.__dict__.setdefault(_JOINED, Joined())
        x = x if scale == 1.0 else x * scale
        add(x, out, groups, lambda slot: joined.of(first, second, slot, x.dtype))


def _forgetting(update: Callable[..., None]) -> Callable[..., None]:
    """Return what takes a batch's rows, and forgets the groups of those before."""

    def updated(self: Any, *given: Any, **named: Any) -> None:  # noqa: ANN401
        self.__dict__[_GROUPS] = {}
        update(self, *given, **named)

    return updated


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
