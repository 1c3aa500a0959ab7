"""Secrets in files that an operator or a container runtime mounts."""
