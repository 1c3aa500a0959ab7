"""The table of a plan's fields has each field of the type, once."""

import re

from penstock.views.tenants import FIELDS
from tests.support import tree

TABLE = re.compile(r"\| field of a plan \|.*?\n\n", re.DOTALL)


def test_the_table_has_every_field_once() -> None:
    """First column against `Plan`: a field that is added is described, one that goes is gone from the page."""
    found = TABLE.search((tree.ROOT / "docs/how-to/tenants.md").read_text())
    assert found is not None
    rows = [row.split("|")[1] for row in found[0].strip().splitlines()[2:]]
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == sorted(FIELDS)
