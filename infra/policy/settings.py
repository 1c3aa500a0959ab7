"""Rules that are one value each: rows of `settings.yaml`, with what the system that reads the value does otherwise."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from infra.config.kinds import StackKind
from infra.graph.nodes import Node
from infra.graph.values import UNKNOWN, Json, is_list, mapping
from infra.policy.invariant import Breach, Invariant
from infra.policy.shipped import workloads
from infra.policy.view import View, pod_spec

FILE = Path(__file__).with_name("settings.yaml")
GUARDS = frozenset({"@protect", "deletionProtection", "enableDeletionProtection", "skipFinalSnapshot", "forceDestroy"})
"""What stands between a resource and its end: none of an environment that is no longer kept."""
PART_S = {"h": 3600, "m": 60, "s": 1}


def seconds(duration: str) -> float:
    """Read a duration as Go writes it: ``24h``, ``1h30m``; 0 if it says no time at all."""
    return sum(float(count) * PART_S[unit] for count, unit in re.findall(r"([\d.]+)([hms])", duration))


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A row of the table."""

    id: str
    of: tuple[str, ...]
    otherwise: str
    must: Mapping[str, Any] = field(default_factory=dict)
    but: Mapping[str, str] = field(default_factory=dict)
    beside: str = ""
    once: frozenset[StackKind] = frozenset()
    never: bool = False

    def breaches(self, view: View) -> Iterator[Breach]:
        """Yield each resource without one of the values."""
        found = self.standing(view)
        theirs = any(token.endswith(one) for token in view.theirs for one in self.of)
        if view.kind in self.once and not found and not theirs:
            yield None, f"add one: {self.otherwise}"
        for node in found:
            wrong = sorted(self.wrong(view, node))
            if wrong or self.never:
                yield node, f"{'correct ' + ', '.join(wrong) if wrong else 'remove it'}: {self.otherwise}"

    def wrong(self, view: View, node: Node) -> Iterator[str]:
        """Yield the paths whose value is another."""
        held = node
        if self.beside:
            token, _, prop = self.beside.rpartition(".")
            others = view.companions(f"aws:{token}", prop, node)
            if not others:
                yield token
                return
            held = others[0]
        told = {"region": node.region or view.region_name, "account": view.fleet.environment.account_id}
        free = frozenset() if view.fleet.environment.keep else GUARDS
        for path, wanted in self.must.items():
            if path not in free and not meets(reach(held, path), wanted, told):
                yield path

    def standing(self, view: View) -> list[Node]:
        """The resources that the row speaks of."""
        return [node for kind in self.of for node in standing(view, kind) if not self._left_out(node)]

    def _left_out(self, node: Node) -> bool:
        return any(re.search(pattern, as_text(one)) for path, pattern in self.but.items() for one in reach(node, path))


def standing(view: View, kind: str) -> Iterator[Node]:
    """The nodes of a row's type; a pod or a container of a workload counts as a node."""
    if "/" in kind:
        yield from view.of(f"aws:{kind}")
    elif kind not in ("Pod", "Container"):
        yield from view.objects(kind)
    else:
        for node in workloads(view):
            pod = {**pod_spec(node), "namespace": mapping(node.inputs, "metadata").get("namespace")}
            both = [one for key in ("containers", "initContainers") for one in _list(pod.get(key))]
            inner = [pod] if kind == "Pod" else [{**one, "namespace": pod["namespace"]} for one in both]
            yield from (replace(node, inputs=one) for one in inner)


def _list(value: Any) -> list[Any]:  # noqa: ANN401 - plain data of a manifest
    return list(value) if is_list(value) else []


def reach(node: Node, path: str) -> list[Json]:
    """Every value at a path, `*` being each element; a list with `None` if there is none."""
    if path == "@name":
        return [node.name]
    if path == "@namespace":
        return [node.inputs.get("namespace")]
    if path.startswith("@"):
        held = getattr(node.options, path[1:])
        return [list(held) if isinstance(held, tuple) else held]
    return _reached(node.inputs, path.split(".")) or [None]


def _reached(value: Json, steps: list[str]) -> list[Json]:
    if not steps:
        return [value]
    if steps[0] == "*":
        inner = value if is_list(value) else [value]
        return [found for one in inner for found in _reached(one, steps[1:])]
    if isinstance(value, Mapping):
        return _reached(value.get(steps[0]), steps[1:])
    if is_list(value) and steps[0].isdigit():
        return _reached(value[int(steps[0])], steps[1:]) if int(steps[0]) < len(value) else [None]
    return [None]


def as_text(value: Json) -> str:
    """A plain value as text; nothing for what is not there."""
    return "" if value is None else str(value)


def meets(values: list[Json], wanted: object, told: Mapping[str, str]) -> bool:
    """Whether all values are as wanted; what is not known before deployment passes."""
    if UNKNOWN in values:
        return True
    if not isinstance(wanted, dict):
        return all(_same(value, wanted) for value in values)
    return all(MEANINGS[name](values, given, told) for name, given in wanted.items())


def _same(value: Json, wanted: object) -> bool:
    if isinstance(wanted, list):
        return sorted(map(as_text, _list(value))) == sorted(map(as_text, wanted))
    return as_text(value).lower() == as_text(wanted).lower() and value is not None  # type: ignore[arg-type]


def _number(value: Json) -> float:
    return float(value) if isinstance(value, (int, float)) else float("nan")


def _flat(values: list[Json]) -> set[str]:
    return {as_text(one) for value in values for one in (value if is_list(value) else [value])}


MEANINGS: Mapping[str, Callable[[list[Json], Any, Mapping[str, str]], bool]] = {
    "least": lambda values, given, _: all(_number(one) >= given for one in values),
    "most": lambda values, given, _: all(_number(one) <= given for one in values),
    "some": lambda values, given, _: all(bool(one) for one in values) == given,
    "none": lambda values, given, _: all(not one for one in values) == given,
    "in": lambda values, given, _: {one.lower() for one in _flat(values)} <= {as_text(one).lower() for one in given},
    "like": lambda values, given, told: all(re.search(given.format(**told), as_text(one)) for one in values),
    "every": lambda values, given, _: _flat(values) >= set(given),
    "has": lambda values, given, _: any(
        given.items() <= mapping({"it": one}, "it").items() for value in values for one in _list(value)
    ),
    "is": lambda values, given, _: values == [given],
    "within": lambda values, given, _: all(
        seconds(given[0]) <= seconds(as_text(one)) <= seconds(given[1]) for one in values
    ),
}


def rows() -> tuple[Setting, ...]:
    """Read the table."""
    found = []
    for name, told in yaml.safe_load(FILE.read_text(encoding="utf-8")).items():
        of, otherwise = told.pop("of"), told.pop("else")
        once = frozenset(map(StackKind, told.pop("once", ())))
        kinds = tuple(of) if isinstance(of, list) else (of,)
        found.append(Setting(id=name, of=kinds, otherwise=otherwise, once=once, **told))
    return tuple(found)


def invariants() -> Iterator[Invariant]:
    """Each row as a rule of the pack."""
    for row in rows():
        yield Invariant(id=row.id, promise=f"Otherwise {row.otherwise}", check=row.breaches)
