"""What of a Kubernetes API server's objects a caller sees: those of some labels, in parts, and as they change."""

from collections.abc import Mapping

from tests.support.clusters.field_owners import Json
from tests.support.clusters.objects import Problem
from tests.support.clusters.store import Event, Store


def selected(one: Json, query: Mapping[str, str]) -> bool:
    """Tell whether an object has the labels that are asked for."""
    labels = one["metadata"].get("labels", {})
    wanted = [part.split("=", 1) for part in query.get("labelSelector", "").split(",") if part]
    return all(labels.get(key) == value for key, value in wanted)


def seen(event: Event, query: Mapping[str, str]) -> str:
    """Return what a watch of these labels sees of a change: what loses them goes, what gets them comes."""
    is_ours, was_ours = selected(event.object, query), bool(event.before) and selected(event.before or {}, query)
    if event.type == "DELETED":
        return "DELETED" if was_ours else ""
    if is_ours:
        return "MODIFIED" if was_ours else "ADDED"
    return "DELETED" if was_ours else ""


def page(store: Store, items: list[Json], query: Mapping[str, str]) -> Json:
    """Return a list, or a part of it and how to go on; a part of a list that is too old is expired."""
    version, _, after = query.get("continue", f"{store.version}/").partition("/")
    if int(version) < store.oldest and after:
        raise Problem(410, "The provided continue parameter is too old to display a consistent list result")
    items, most = [one for one in items if one["metadata"]["name"] > after], int(query.get("limit", "0"))
    meta: Json = {"resourceVersion": version}
    if most and len(items) > most:
        items = items[:most]
        meta |= {"continue": f"{version}/{items[-1]['metadata']['name']}"}
    return {"kind": "List", "metadata": meta, "items": items}
