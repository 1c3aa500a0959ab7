"""Nouns of one request: what it asks, what it costs, what the platform promises for it, what is reported about it."""
