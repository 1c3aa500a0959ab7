"""What a Kubernetes API server says to an object that it is given: its kind, its schema, its owners, its number."""

import copy
import json
import re
from collections.abc import Callable, Mapping, Sequence

from kubernetes.client import ApiClient

from tests.support.clusters.field_owners import Json, Managers
from tests.support.clusters.store import Store

MODELS = {"pods": "V1Pod", "deployments": "V1Deployment", "poddisruptionbudgets": "V1PodDisruptionBudget"}
"""The official client's models of built-in kinds, made from Kubernetes' OpenAPI document."""
CUSTOM = {"scaledobjects": ("keda.sh/v1alpha1", "ScaledObject")}
KINDS = {
    "pods": ("v1", "Pod"),
    "deployments": ("apps/v1", "Deployment"),
    "poddisruptionbudgets": ("policy/v1", "PodDisruptionBudget"),
    **CUSTOM,
}
_PATH = re.compile(r"/(?:api/v1|apis/[a-z0-9.]+/v\w+)/namespaces/[a-z0-9-]+/([a-z]+)(?:/([a-z0-9.-]+))?")
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")


REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}
"""https://pkg.go.dev/k8s.io/apimachinery/pkg/apis/meta/v1#StatusReason"""


class Problem(Exception):
    """An answer that is no yes."""

    def __init__(self, status: int, message: str, *, retry_after_s: int = 0, causes: Sequence[Json] = ()) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after_s, self.causes = status, message, retry_after_s, causes

    def shown(self) -> Json:
        """Return it as the API does: a `Status`."""
        details: Json = {"causes": list(self.causes)} if self.causes else {}
        details |= {"retryAfterSeconds": self.retry_after_s} if self.retry_after_s else {}
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": REASONS.get(self.status, ""),
            **({"details": details} if details else {}),
            "code": self.status,
        }


def plural_of(path: str) -> tuple[str, str]:
    """Return the kind and name of an address."""
    match = _PATH.fullmatch(path)
    if not match or match.group(1) not in {*MODELS, *CUSTOM}:
        raise Problem(404, "the server could not find the requested resource")
    return match.group(1), match.group(2) or ""


def applied(store: Store, plural: str, name: str, query: Mapping[str, str], body: Json) -> Json:
    manager = query.get("fieldManager", "")
    _may_apply(manager, name, body)
    check(plural, body)
    key = (plural, name)
    before = copy.deepcopy(store.objects.get(key))
    managers = store.managers.setdefault(key, Managers())
    owners = copy.deepcopy(managers.of)
    live = store.objects.get(key) or {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "metadata": {"name": name},
    }
    if before is None:
        live["metadata"]["namespace"] = body["metadata"]["namespace"]
    conflicts = managers.apply(live, body, manager, force=query.get("force") == "true")
    if conflicts:
        raise _conflict(body["apiVersion"], conflicts)
    if before is None:
        if plural == "deployments":
            live["spec"].setdefault("replicas", 1)  # the API's own default; nobody owns it
        return store.add(plural, live)
    if live != before or owners != managers.of:
        store.changed_from(plural, before, live)
    return live


def _conflict(version: str, conflicts: Mapping[str, Sequence[str]]) -> Problem:
    """Return the owners of the fields, in the words of `structured-merge-diff`, which `kubectl` shows too."""
    causes = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{other}" using {version}', "field": field}
        for other, fields in sorted(conflicts.items())
        for field in fields
    ]
    if len(causes) == 1:
        return Problem(
            409, f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}", causes=causes
        )
    told = [
        f'conflicts with "{other}" using {version}:\n' + "\n".join(f"- {field}" for field in fields)
        for other, fields in sorted(conflicts.items())
    ]
    return Problem(409, f"Apply failed with {len(causes)} conflicts: " + "\n".join(told), causes=causes)


def _may_apply(manager: str, name: str, body: Json) -> None:
    if not manager:
        raise Problem(
            422, 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
        )
    if body.get("metadata", {}).get("managedFields"):
        raise Problem(400, "metadata.managedFields must be nil")
    if body.get("metadata", {}).get("name") != name:
        raise Problem(400, "the name of the object does not match the name on the URL")


def patched(store: Store, plural: str, name: str, query: Mapping[str, str], body: Json) -> Json:
    """Merge a patch (RFC 7386)."""
    if (plural, name) not in store.objects:
        raise Problem(404, f'{plural} "{name}" not found')
    return store.change(plural, name, lambda it: _merge(it, body), query.get("fieldManager", "unknown"))


def _merge(live: Json, patch: Json) -> None:
    for key, value in patch.items():
        if value is None:
            live.pop(key, None)
        elif isinstance(value, dict):
            _merge(live.setdefault(key, {}), value)
        else:
            live[key] = value


def check(plural: str, body: Json) -> None:
    """Raise the API's own refusal (422) for an object that it would not take."""
    meta = body["metadata"]
    if not _NAME.fullmatch(meta["name"]):
        raise Problem(422, f"metadata.name: Invalid value: {meta['name']!r}")
    labels = [meta.get("labels", {}), body["spec"].get("template", {}).get("metadata", {}).get("labels", {})]
    for value in (one for some in labels for one in some.values()):
        if not _LABEL.fullmatch(value):
            raise Problem(422, f"metadata.labels: Invalid value: {value!r}")
    if plural in MODELS:
        _fits_model(plural, body)
    elif (body["apiVersion"], body["kind"]) != CUSTOM[plural]:
        raise Problem(400, f"{body['kind']} is no {plural}")
    if plural == "deployments":
        _selects_itself(body["spec"])


def _fits_model(plural: str, body: Json) -> None:
    client = ApiClient()
    try:
        read = client.deserialize(json.dumps(body), MODELS[plural], "application/json")
    except ValueError as error:
        raise Problem(422, f"the object does not fit its schema: {error}") from error
    lost = sorted(_lost(body, _written(client, read), ""))
    if lost:
        raise Problem(422, f"unknown fields: {', '.join(lost)}")


def _written(client: ApiClient, read: object) -> object:
    write: Callable[[object], object] = client.sanitize_for_serialization
    return write(read)


def _lost(given: object, kept: object, path: str) -> list[str]:
    if isinstance(given, dict):
        kept = kept if isinstance(kept, dict) else {}
        found = [
            _lost(one, kept[key], f"{path}.{key}") if key in kept else [f"{path}.{key}"] for key, one in given.items()
        ]
        return [one for some in found for one in some]
    if isinstance(given, list) and isinstance(kept, list):
        return [one for n, item in enumerate(given) for one in _lost(item, kept[n], f"{path}[{n}]")]
    return []


def _selects_itself(spec: Json) -> None:
    wanted, labels = spec["selector"]["matchLabels"].items(), spec["template"]["metadata"].get("labels", {}).items()
    if not wanted or not wanted <= labels:
        raise Problem(422, "spec.template.metadata.labels: `selector` does not match template `labels`")
