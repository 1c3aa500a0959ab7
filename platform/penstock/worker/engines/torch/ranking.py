"""An output's highest values with their places and labels, as Triton's classification extension tells them. Pure.

Source: Triton Inference Server, classification extension: ``value:index[:label]``, highest first.
"""

from collections.abc import Sequence

import torch

from penstock.domain.models.tensors import joined


def ranked(rows: torch.Tensor, classes: int, labels: Sequence[str]) -> tuple[bytes, list[int]]:
    """Return the texts as elements of ``BYTES``, and their shape; of equal values the first one leads.

    ``rows`` holds an item a row. Labels are told if there is one for each of an item's values.
    """
    is_float = rows.is_floating_point()
    flat = rows.reshape(len(rows), -1).to(torch.float64 if is_float else torch.int64)
    count = min(classes, flat.shape[1])
    found = flat.sort(dim=1, descending=True, stable=True)
    named, form = labels if len(labels) == flat.shape[1] else (), "{:f}:{}" if is_float else "{:d}:{}"
    told = [
        form.format(value, index) + (f":{named[index]}" if named else "")
        for row, places in zip(found.values[:, :count].tolist(), found.indices[:, :count].tolist(), strict=True)
        for value, index in zip(row, places, strict=True)
    ]
    return joined(one.encode() for one in told), [len(rows), count]
