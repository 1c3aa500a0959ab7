"""Composition roots: where ports meet adapters, and nothing else happens."""
