"""Prometheus: what it is told, and what was measured: asked of it, or read from the processes' own pages."""
