"""Keys of what tenants store, by the key-encryption key that wraps them."""

from collections.abc import Iterator

from penstock.views.elements import Line, Listing, Record, Style, line, table


def status(found: Record) -> Iterator[Line | Listing]:
    current = found["key_encryption_key"]
    yield line("keys are wrapped by ", (current, Style.STRONG))
    columns = {"wrapped by": "wrapped_by", "purpose": "purpose", "keys": "keys", "tenants": "tenants"}
    yield table("Tenants' keys", found["keys"], columns)
    if any(one["wrapped_by"] != current for one in found["keys"]):
        yield line("Some are wrapped by another key: keep it until `penstock privacy rewrap` has run.")
