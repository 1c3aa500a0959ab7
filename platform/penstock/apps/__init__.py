"""Composition roots: each process's ports meet their connectors here."""
