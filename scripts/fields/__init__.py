"""Makes the table of fields from verdicts, SDKs and engine: ``python -m scripts.fields``.

A field without a verdict is printed, and so is a verdict without a field; then the table is refused.
"""
