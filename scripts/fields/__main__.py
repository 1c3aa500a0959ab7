"""Writes the table of fields that gateways read; fails if a field has no verdict."""

import sys

from scripts.fields.table import FILE, compiled, missing, unused, written

table = compiled()
for path in missing(table):
    print(f"no verdict  {path}")
for path in unused(table):
    print(f"no field    {path}")
FILE.write_text(written(table))
sys.exit(bool(missing(table) or unused(table)))
