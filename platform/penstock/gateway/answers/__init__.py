"""The only reader of engines' answers, for every API: ``content``, and the end (``account``).

Readers decode only their own fields; the rest is skipped as bytes.
"""
