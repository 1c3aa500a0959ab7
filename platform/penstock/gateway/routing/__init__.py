"""Routing: resolves a name to a version, and picks one of the version's workers for the request."""
