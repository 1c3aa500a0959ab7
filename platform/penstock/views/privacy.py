"""Keys of what tenants store, by the key-encryption key that wraps them; deletions and their receipts."""

from collections.abc import Iterator, Sequence

from penstock.views.elements import Cell, Line, Listing, Record, Style, line, table


def status(found: Record) -> Iterator[Line | Listing]:
    current = found["key_encryption_key"]
    yield line("keys are wrapped by ", (current, Style.STRONG))
    columns = {"wrapped by": "wrapped_by", "purpose": "purpose", "keys": "keys", "tenants": "tenants"}
    yield table("Tenants' keys", found["keys"], columns)
    if any(one["wrapped_by"] != current for one in found["keys"]):
        yield line("Some are wrapped by another key: keep it until `penstock privacy rewrap` has run.")


def deletion(found: Record) -> Iterator[Line | Listing]:
    yield line(f"deletion {found['id']} of {found['tenant']}: ", (found["state"], Style.STRONG))
    yield line(_counted(found))
    if found["state"] == "done":
        if not _deleted_rows(found["counts"]):
            yield line("Nothing of this scope was stored: is the name right?")
        yield line(found["receipt"])
        yield line(f"signature {found['signature']}")
    else:
        yield line("A runner and a gateway sweep; then the leading controller signs: ", _command(found))


def deletions(found: Sequence[Record]) -> Listing:
    columns: dict[str, Cell] = {
        "number": "id",
        "tenant": "tenant",
        "of": _scope,
        "state": "state",
        "deleted": _deleted,
    }
    return table("Deletions", found, columns)


def _command(found: Record) -> tuple[str, Style]:
    return f"penstock privacy receipt {found['id']}", Style.COMMAND


def _scope(one: Record) -> str:
    told = (f"{name} {one[name]}" for name in ("request", "user_mark", "before") if one[name])
    return ", ".join(told) or "everything"


def _deleted_rows(counts: Record) -> int:
    return sum(int(number) for name, number in counts.items() if name not in ("answers", "unattributed"))


def _deleted(one: Record) -> str:
    return _counted(one)


def _counted(one: Record) -> str:
    nothing = "nothing" if one["state"] == "done" else "nothing yet"
    return ", ".join(f"{number:,} {name}" for name, number in one["counts"].items() if number) or nothing
