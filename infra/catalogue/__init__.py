"""Facts about what AWS offers: instance types, MIG layouts, prices. Each has a source and a date; no policy here."""
