"""Checks a handler's outputs against its version's declaration."""

from penstock.domain.errors import EngineError
from penstock.domain.models.model import HandlerSettings
from penstock.domain.models.tensors import ANY, TensorSpec
from penstock.worker.engines.torch.dtypes import DATATYPES
from penstock.worker.engines.torch.handler import Features


class Undeclared(EngineError):
    """A handler gives other outputs than its version declares. Its words are ours and the handler's, no caller's."""


def check_example(row: Features, settings: HandlerSettings) -> None:
    """Raise ``Undeclared`` unless the outputs are exactly those declared."""
    for one in settings.outputs:
        if one.name not in row:
            raise Undeclared(f"the handler declares output {one.name} and gives {_names(row)}")
    check({name: one[None] for name, one in row.items()}, settings)


def check(made: Features, settings: HandlerSettings) -> None:
    """Raise ``Undeclared`` if outputs differ in kind, or none is declared."""
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
