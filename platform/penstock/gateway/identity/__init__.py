"""Identifies callers: credential → principal, without HTTP and without waiting."""
