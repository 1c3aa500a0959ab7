"""Checks a handler's outputs against its version's declaration."""

import torch

from penstock.domain.errors import EngineError
from penstock.domain.models.model import HandlerSettings
from penstock.domain.models.tensors import ANY, Datatype, TensorSpec
from penstock.worker.engines.torch.handler import Features

DTYPES = {
    Datatype.BOOL: torch.bool,
    Datatype.UINT8: torch.uint8,
    Datatype.UINT16: torch.uint16,
    Datatype.UINT32: torch.uint32,
    Datatype.UINT64: torch.uint64,
    Datatype.INT8: torch.int8,
    Datatype.INT16: torch.int16,
    Datatype.INT32: torch.int32,
    Datatype.INT64: torch.int64,
    Datatype.FP16: torch.float16,
    Datatype.BF16: torch.bfloat16,
    Datatype.FP32: torch.float32,
    Datatype.FP64: torch.float64,
}
DATATYPES = {dtype: datatype for datatype, dtype in DTYPES.items()}


class Undeclared(EngineError):
    """The handler's outputs differ from those that its version declares. The message quotes handler and version,
    never a caller.
    """


def check_example(row: Features, settings: HandlerSettings) -> None:
    for one in settings.outputs:
        if one.name not in row:
            raise Undeclared(f"the handler declares output {one.name} and gives {_names(row)}")
    check({name: one[None] for name, one in row.items()}, settings)


def check(made: Features, settings: HandlerSettings) -> None:
    given = [one for one in settings.outputs if one.name in made]
    if not given:
        raise Undeclared(f"the handler declares output {settings.outputs[0].name} and gives {_names(made)}")
    for declared in given:
        found = made[declared.name]
        datatype = DATATYPES.get(found.dtype)
        if datatype is None or not declared.takes(
            TensorSpec(name=declared.name, datatype=datatype, shape=tuple(found.shape))
        ):
            kind = f"{datatype or found.dtype} {[ANY, *found.shape[1:]]}"
            raise Undeclared(f"{declared.name} is declared {declared.datatype} {list(declared.shape)}, not {kind}")


def _names(made: Features) -> str:
    return ", ".join(sorted(made)) or "nothing"
