"""Program: convert pickled torch weights to safetensors, once, at registration.

    python -m penstock.worker.engines.pickled MODEL.pth FOLDER

Only tensors are unpickled (``weights_only``); no code of the file can run. The output is read again and compared bit by
bit. The same file gives the same bytes.
"""

import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WEIGHTS = "model.safetensors"
REFUSED = "refused: "
"""The begin of the line that describes the file's fault, for the person who pushed it."""
_OTHER = "it holds something else than tensors: a whole model, TorchScript, or no pickle"


class NotWeights(Exception):
    """The file holds other values than a state dict of tensors."""


def main(source: Path, folder: Path) -> None:
    _say("loading libraries")
    from safetensors.torch import load_file, save_file

    _say("weights")
    weights = tensors_of(read(source))
    _say("writing")
    folder.mkdir(parents=True)
    save_file(weights, folder / WEIGHTS)
    _say("comparing")
    compare(weights, load_file(folder / WEIGHTS))


def read(source: Path) -> Any:  # noqa: ANN401  whatever was pickled
    """``NotWeights`` unless it holds only tensors and plain values."""
    import torch

    try:
        return torch.load(source, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        is_cut = isinstance(error, EOFError) or (isinstance(error, RuntimeError) and "TorchScript" not in str(error))
        raise NotWeights("it is damaged or cut off" if is_cut else _OTHER) from error


def tensors_of(found: Any) -> dict[str, Any]:  # noqa: ANN401  whatever was pickled
    """Return tensors with memory of their own; raises ``NotWeights``."""
    import torch

    if isinstance(found, Mapping) and isinstance(found.get("state_dict"), Mapping):
        found = found["state_dict"]
    if not isinstance(found, Mapping) or not found:
        raise NotWeights(f"it holds a {type(found).__name__}, not a state dict")
    strange = [name for name, one in found.items() if not isinstance(one, torch.Tensor)]
    if strange:
        raise NotWeights(f"{strange[0]!r} in it is no tensor")
    return {str(name): one.detach().contiguous().clone() for name, one in sorted(found.items())}


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    import torch

    if before.keys() != after.keys():
        raise NotWeights("the converted file has other tensors than the original")
    for name, one in before.items():
        other = after[name]
        same = one.dtype == other.dtype and one.shape == other.shape
        if not same or not torch.equal(_bits(one), _bits(other)):
            raise NotWeights(f"{name} differs in the converted file from the original")


def _bits(one: Any) -> Any:  # noqa: ANN401  a tensor
    import torch

    return one.reshape(-1).view(torch.uint8)


def _say(step: str) -> None:
    print(f"step: {step}", flush=True)  # noqa: T201  a program's output, read by packaging/convert.py


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
    except NotWeights as refused:
        print(f"{REFUSED}{refused}", flush=True)  # noqa: T201  read by packaging/convert.py
        sys.exit(1)
