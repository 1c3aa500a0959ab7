"""Whose a version is, on the command line: read before anything is pushed, and shown."""

from typing import Any

from penstock.cli.adapters import Asked
from penstock.domain.command_error import CommandError


def read(text: str, api: Asked) -> list[str] | None:
    """Return the tenants of a list with commas, None where it is empty; ``CommandError`` where one is none."""
    if not text:
        return None
    named = [name.strip() for name in text.split(",")]
    known = {tenant["id"] for tenant in api.get("/tenants")["tenants"]}
    for name in named:
        if name not in known:
            raise CommandError(f"There is no tenant {name[:80]!r}.", do="See penstock tenants list, or add it first.")
    return named


def note(version: dict[str, Any]) -> str:
    """Say for whom alone a version is; nothing of one that is for everybody."""
    tenants = version.get("tenants")
    if tenants is None:
        return ""
    return f"for {', '.join(tenants)} alone" if tenants else "for no tenant: none of its own is one of its base's"
