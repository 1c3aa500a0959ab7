"""Secrets that somebody else puts into files: an operator, or what mounts them into a container."""
