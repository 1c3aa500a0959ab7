"""Deferred work: requests that nobody waits for, and what belongs to them."""
