"""Modules that a PEFT folder excludes from training: PEFT ignores their tensors, an engine would load them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from penstock.domain.errors import ArtifactRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Values of ``exclude_modules`` and ``layers_to_transform``; ``layers`` is None for all layers."""

    excluded: tuple[str, ...] = ()
    layers: tuple[int, ...] | None = None
    under: tuple[str, ...] = ()
    """What layers are called (``layers_pattern``); empty where any number in a name is a layer's."""

    def leaves_out(self, module: str) -> bool:
        if any(module == name or module.endswith(f".{name}") for name in self.excluded):
            return True
        return self.layers is not None and self._layer_of(module) not in self.layers

    def _layer_of(self, module: str) -> int | None:
        """Return the last number in a name, as PEFT does; None without one."""
        parts = module.split(".")
        found = [
            part
            for before, part in pairwise(parts[:-1])
            if part.isdecimal() and (not self.under or before in self.under)
        ]
        return int(found[-1][:9]) if found else None


def read(found: Mapping[str, object]) -> Targets:
    """Return the folder's exclusions; raises ``ArtifactRefused`` if they are ambiguous."""
    layers = found.get("layers_to_transform")
    chosen = [layers] if isinstance(layers, int) else layers
    if chosen in (None, []):
        return Targets(excluded=_names(found, "exclude_modules"))
    if not isinstance(chosen, list) or not all(type(one) is int for one in chosen):
        raise ArtifactRefused("layers_to_transform in its settings is no list of numbers of layers")
    return Targets(
        excluded=_names(found, "exclude_modules"), layers=tuple(chosen), under=_names(found, "layers_pattern")
    )


def _names(found: Mapping[str, object], name: str) -> tuple[str, ...]:
    said = found.get(name) or []
    is_name = isinstance(said, str) and name == "layers_pattern" and said.isidentifier()
    names = [said] if is_name else said
    if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
        raise ArtifactRefused(f"{name} in its settings is no list of names: what it leaves out can't be told")
    return tuple(names)
