"""Writes the table of fields that gateways read, or compares it (``--check``); fails if a field has no verdict."""

import sys

from scripts.fields.table import FILE, compiled, missing, unused, written

table = compiled()
for path in missing(table):
    print(f"no verdict  {path}")
for path in unused(table):
    print(f"no field    {path}")
is_old = FILE.read_text() != written(table)
if "--check" in sys.argv:
    print("the table is old: python -m scripts.fields" if is_old else "the table is as it was written")
else:
    FILE.write_text(written(table))
    is_old = False
sys.exit(is_old or bool(missing(table) or unused(table)))
