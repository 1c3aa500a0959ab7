"""Identifies callers: a credential in, a principal out. It knows nothing of HTTP and waits for nothing."""
