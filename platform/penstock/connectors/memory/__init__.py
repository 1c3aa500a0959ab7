"""Limits and recorded answers in the memory of one gateway, for a platform without Redis."""
