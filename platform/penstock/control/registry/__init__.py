"""What exists: immutable versions, the aliases that lead to them, and how many workers each should have."""
