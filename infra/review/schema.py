"""The Terraform provider's own schema as a small tree: which attributes and blocks a type has."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from infra.graph.values import Json, dig, mapping, text

PROVIDER = "registry.terraform.io/hashicorp/aws"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One level: plain attributes, attributes that hold objects, nested blocks. `single` blocks are not lists."""

    attributes: frozenset[str]
    objects: Mapping[str, "Block"] = field(default_factory=dict)
    blocks: Mapping[str, "Block"] = field(default_factory=dict)
    computed: frozenset[str] = frozenset()
    single: bool = False

    def names(self) -> frozenset[str]:
        """Everything that may be set here."""
        return self.attributes | frozenset(self.objects) | frozenset(self.blocks)


def read(path: Path) -> tuple[dict[str, Block], Block]:
    """The resource types and the provider block of a `terraform providers schema -json` dump."""
    content: Json = json.loads(path.read_text(encoding="utf-8"))
    found = mapping(mapping(content, "provider_schemas").get(PROVIDER, {}), "resource_schemas")
    provider = dig(mapping(content, "provider_schemas").get(PROVIDER, {}), "provider.block")
    return {name: _block(dig(value, "block")) for name, value in found.items()}, _block(provider)


def _block(raw: Json, *, single: bool = False) -> Block:
    plain, objects, computed = set(), {}, set()
    for name, attribute in mapping(raw, "attributes").items():
        if dig(attribute, "computed") and not dig(attribute, "optional"):
            computed.add(name)
        nested = dig(attribute, "nested_type")
        if nested is None:
            plain.add(name)
        else:
            objects[name] = _block(nested, single=text(nested, "nesting_mode") == "single")
    blocks = {
        name: _block(dig(inner, "block"), single=text(inner, "nesting_mode") == "single")
        for name, inner in mapping(raw, "block_types").items()
    }
    return Block(
        attributes=frozenset(plain), objects=objects, blocks=blocks, computed=frozenset(computed), single=single
    )
