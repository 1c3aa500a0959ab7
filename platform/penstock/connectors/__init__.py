"""Connectors to outside systems: one folder per system; each satisfies ports by shape and imports no other."""
