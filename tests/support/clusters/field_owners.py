"""The owners of a Kubernetes object's fields, and server-side apply by them, as the documentation has it.

https://kubernetes.io/docs/reference/using-api/server-side-apply/ - a field that another manager owns and that an apply
would change is a conflict; without force nothing changes. A manager gives up a field that it no longer applies, and a
field without owners goes. An update never conflicts: it owns its changes from then on. A manager is its name and its
way of writing, so a manager that updates a field and applies it under one name conflicts with itself
(https://github.com/kubernetes/kubernetes/issues/107417).
Lists and maps are merged or replaced as the types of ``apps/v1`` say; in custom resources lists are replaced.
"""

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

Path = tuple[str, ...]
Manager = tuple[str, str]
"""Who, and whether by apply or by update."""
Json = dict[str, Any]

KEYED: Mapping[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "ports": ("containerPort", "protocol"),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "imagePullSecrets": ("name",),
}
DEFAULTS = {"protocol": "TCP"}
WHOLE = frozenset({"selector", "labelSelector", "nodeSelector", "fieldRef", "secretKeyRef", "matchLabels"})
_IDENTITY = frozenset({"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"})
_BUILT_IN = frozenset({"v1", "apps/v1", "policy/v1"})


def key_of(item: Json, names: tuple[str, ...]) -> str:
    """Return how managed fields name an item of a keyed list."""
    return "k:" + json.dumps({name: item.get(name, DEFAULTS.get(name)) for name in names}, separators=(",", ":"))


def owned(body: Json) -> dict[Path, Any]:
    """Return the fields that an object sets, each with its value: an apply of it owns them."""
    content = {key: value for key, value in body.items() if key not in ("apiVersion", "kind", "status")}
    meta = {key: one for key, one in content.get("metadata", {}).items() if key not in _IDENTITY | {"managedFields"}}
    return dict(_leaves({**content, "metadata": meta}, (), keyed=body["apiVersion"] in _BUILT_IN))


def _leaves(value: object, path: Path, *, keyed: bool) -> Iterator[tuple[Path, Any]]:
    name = path[-1].removeprefix("f:") if path else ""
    if isinstance(value, dict) and (value or not path) and not (keyed and name in WHOLE):
        for key, one in value.items():
            yield from _leaves(one, (*path, f"f:{key}"), keyed=keyed)
    elif isinstance(value, list) and keyed and name in KEYED:
        for one in value:
            yield from _leaves(one, (*path, key_of(one, KEYED[name])), keyed=keyed)
    else:
        yield path, value


def put(live: Json, path: Path, value: object) -> None:
    """Set one field, making what leads to it."""
    at: Any = live
    for step, following in zip(path, (*path[1:], ""), strict=True):
        last = following == ""
        if step.startswith("f:"):
            if last:
                at[step[2:]] = copy.deepcopy(value)
            else:
                at = at.setdefault(step[2:], [] if following.startswith("k:") else {})
        else:
            at = _item(at, json.loads(step[2:]))


def _item(items: list[Json], key: Json) -> Json:
    for one in items:
        if all(one.get(name, DEFAULTS.get(name)) == value for name, value in key.items()):
            return one
    items.append({name: value for name, value in key.items() if value != DEFAULTS.get(name)})
    return items[-1]


def drop(live: Json, path: Path) -> None:
    """Take one field away, and what it leaves empty."""
    way: list[tuple[Any, Any]] = []
    at: Any = live
    for step in path:
        if step.startswith("f:"):
            if not isinstance(at, dict) or step[2:] not in at:
                return
            way.append((at, step[2:]))
            at = at[step[2:]]
        else:
            found = _item(at, json.loads(step[2:]))
            way.append((at, at.index(found)))
            at = found
    for holder, key in reversed(way):
        if holder is way[-1][0] or holder[key] in ({}, []):
            del holder[key]


def shown(path: Path) -> str:
    """Return a field as messages name it: ``.spec.containers[name="worker"].image``."""
    text = ""
    for step in path:
        if step.startswith("f:"):
            text += f".{step[2:]}"
        else:
            text += "[" + ",".join(f'{key}="{one}"' for key, one in json.loads(step[2:]).items()) + "]"
    return text


class Managers:
    def __init__(self) -> None:
        self.of: dict[Manager, set[Path]] = {}

    def apply(self, live: Json, body: Json, name: str, *, force: bool) -> dict[str, list[str]]:
        """Merge what is applied into the live object, or return the conflicts by manager and change nothing."""
        manager: Manager = (name, "Apply")
        wanted, there = owned(body), owned(live)
        taken = {
            other: {path for path in mine & wanted.keys() if there.get(path) != wanted[path]}
            for other, mine in self.of.items()
            if other != manager
        }
        if any(taken.values()) and not force:
            return {other[0]: [shown(path) for path in sorted(paths)] for other, paths in taken.items() if paths}
        for other, paths in taken.items():
            self.of[other] -= paths
        others = {path for other, mine in self.of.items() if other != manager for path in mine}
        for path in self.of.get(manager, set()) - wanted.keys() - others:
            drop(live, path)
        for path, value in wanted.items():
            put(live, path, value)
        self.of[manager] = set(wanted)
        return {}

    def update(self, before: Json, after: Json, name: str) -> None:
        """Make the updating manager the owner of the changed fields."""
        old, new = owned(before), owned(after)
        changed = {path for path, value in new.items() if old.get(path) != value}
        gone = old.keys() - new.keys()
        self.of = {one: mine - changed - gone for one, mine in self.of.items()}
        self.of.setdefault((name, "Update"), set()).update(changed)

    def shown(self, api_version: str) -> list[Json]:
        """Return them as ``metadata.managedFields``."""
        return [
            {
                "manager": name,
                "operation": operation,
                "apiVersion": api_version,
                "fieldsType": "FieldsV1",
                "fieldsV1": _tree(paths),
            }
            for (name, operation), paths in sorted(self.of.items())
            if paths
        ]


def _tree(paths: set[Path]) -> Json:
    root: Json = {}
    for path in sorted(paths):
        at = root
        for step in path:
            at = at.setdefault(step, {})
    return root
