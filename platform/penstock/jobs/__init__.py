"""Deferred requests: claimed, run through the gateway's pipeline, and delivered."""
