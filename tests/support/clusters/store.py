"""What a Kubernetes API server keeps: objects by kind, their versions, and the log that watches are answered from."""

import copy
import itertools
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.support.clusters.field_owners import Json, Managers

Key = tuple[str, str]
"""Plural and name of an object."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """One change, with the object as it was then."""

    version: int
    plural: str
    type: str
    object: Json
    before: Json | None = None
    """What it was, where it was: a watch of some labels sees an object come or go that changes its labels."""


@dataclass(kw_only=True)
class Store:
    """Everything of one namespace; readers and writers hold ``changed``."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    objects: dict[Key, Json] = field(default_factory=dict)
    managers: dict[Key, Managers] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    oldest: int = 0
    """From which version on watches can be answered; older ones are expired (410)."""
    expired_at: int = 0
    """Counts how often open watches were told that they are expired."""
    listeners: list[Callable[[], None]] = field(default_factory=list)
    _versions: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    version: int = 0

    def now(self) -> str:
        """Return the time as objects have it."""
        return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def add(self, plural: str, body: Json) -> Json:
        made = copy.deepcopy(body)
        meta = made.setdefault("metadata", {})
        meta |= {"uid": str(uuid.uuid4()), "creationTimestamp": self.now(), "generation": 1}
        self.objects[plural, meta["name"]] = made
        self.managers.setdefault((plural, meta["name"]), Managers())
        self.tell(plural, "ADDED", made)
        return made

    def change(self, plural: str, name: str, edit: Callable[[Json], Any], manager: str) -> Json:
        """Update an object: what changes is the manager's from then on; what changes nothing is no event."""
        live = self.objects[plural, name]
        before = copy.deepcopy(live)
        edit(live)
        if live != before:
            self.managers[plural, name].update(before, live, manager)
            self.changed_from(plural, before, live)
        return live

    def changed_from(self, plural: str, before: Json, live: Json) -> None:
        """Count a new generation if the spec changed, and tell of it."""
        if before.get("spec") != live.get("spec"):
            live["metadata"]["generation"] = live["metadata"].get("generation", 0) + 1
        self.tell(plural, "MODIFIED", live, before)

    def remove(self, plural: str, name: str) -> None:
        gone = self.objects.pop((plural, name))
        self.managers.pop((plural, name), None)
        self.tell(plural, "DELETED", gone, copy.deepcopy(gone))

    def tell(self, plural: str, kind: str, one: Json, before: Json | None = None) -> None:
        """Log a change and wake all watches."""
        self.version = next(self._versions)
        one["metadata"]["resourceVersion"] = str(self.version)
        if kind != "DELETED":
            key = (plural, one["metadata"]["name"])
            one["metadata"]["managedFields"] = self.managers[key].shown(one["apiVersion"])
        event = Event(version=self.version, plural=plural, type=kind, object=copy.deepcopy(one), before=before)
        self.events.append(event)
        self.changed.notify_all()

    def compact(self) -> None:
        """Forget the log: watches from before now are expired."""
        self.oldest = self.version + 1
        self.version = next(self._versions)

    def of(self, plural: str) -> list[Json]:
        """Return the objects of a kind by name."""
        return [one for (kind, _), one in sorted(self.objects.items()) if kind == plural]
