"""Versions, which are immutable, the aliases that lead to them, and their deployments."""
