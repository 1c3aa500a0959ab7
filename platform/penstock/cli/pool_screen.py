"""Who of a machine's workers is awake, in words: beside each version, and of the whole pool."""

from typing import Any

_ASLEEP = ("sleeping", "waking")
"""States that are told beside the number; in all others a worker holds its memory."""


def workers(version: dict[str, Any]) -> str:
    """Say how many workers a version should have, which of them sleep or wake, and whether they may."""
    states = version.get("states", {})
    told = [f"{states[state]} {state}" for state in _ASLEEP if states.get(state)]
    told += ["pinned"] if version.get("pinned") else []
    return f"{version['replicas']}" + (f" ({', '.join(told)})" if told else "")


def pins(found: dict[str, Any] | None, versions: list[dict[str, Any]]) -> str:
    """Say which versions' workers never sleep, for their memory is nobody else's; nothing where there is no pool."""
    pinned = ", ".join(_pinned(one) for one in versions if one.get("pinned") and one["replicas"])
    return f"\npinned, and nobody else has their memory: {pinned}" if found is not None and pinned else ""


def _pinned(version: dict[str, Any]) -> str:
    """Name a pinned version; an adapter with its base, whose workers it keeps awake."""
    base = version.get("base")
    return f"{version['id']} (of {base})" if base else str(version["id"])


def pool(found: dict[str, Any] | None) -> str:
    """Say what engines hold of the machine's memory, and who waits for a place in it; nothing where all are awake."""
    if found is None:
        return ""
    held, limit = (found[name] / 1e6 for name in ("held_bytes", "limit_bytes"))
    waits = "; ".join(f"{one['version']} ({one['requests']} requests)" for one in found["waited_for"])
    return f"\npool: {held:,.0f} of {limit:,.0f} MB held" + "".join(
        (f"; waited for: {waits}" if waits else "", *(f"\n{one}" for one in found.get("unfit", ())))
    )
