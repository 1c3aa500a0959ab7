"""Decides whether a request may run now: its deadline, its plan's bounds, one lease."""
