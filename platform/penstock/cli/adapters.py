"""Adapters on the command line: which version is meant by a base, and how they are shown."""

from typing import Any, Protocol

import msgspec

from penstock.cli import pool_screen
from penstock.domain.command_error import CommandError
from penstock.domain.models.model import ModelVersion


class Asked(Protocol):
    """The operators' API, as far as it is read here."""

    def get(self, path: str) -> Any:  # noqa: ANN401  JSON
        """Return what is at a path."""
        ...


def base_of(name: str, api: Asked) -> ModelVersion:
    """Return the version that a name means: itself, or the one version of an alias; raises ``CommandError``."""
    if "@" not in name:
        routes = {route["alias"]: route["shares"] for route in api.get("/aliases")["aliases"]}
        versions = [share["version"] for share in routes.get(name, []) if share["weight"]]
        if len(versions) != 1:
            found = f"several versions ({', '.join(versions)})" if versions else "no version"
            raise CommandError(
                f"The alias {name!r} leads to {found}.",
                do="Name the version that the adapter is made for: name@digest.",
            )
        name = versions[0]
    return msgspec.convert(api.get(f"/models/{name}"), ModelVersion)


def note(version: dict[str, Any]) -> str:
    """Return whose adapter a version is, who holds it, who refuses it and why; nothing of any other version."""
    if not version.get("base"):
        return ""
    held = ", ".join(version["resident"])
    refused = "".join(f"; REFUSED by {one}" for one in version.get("refused", ()))
    return f"an adapter of {version['base']}, held by {held or 'no worker now'}{refused}"


def workers_of(version: dict[str, Any]) -> str:
    """Say how many workers a version should have, and who of them sleeps; of an adapter, whether it is on."""
    if not version.get("base"):
        return pool_screen.workers(version)
    if not version["replicas"]:
        return "off"
    return "on (pinned)" if version.get("pinned") else "on"
