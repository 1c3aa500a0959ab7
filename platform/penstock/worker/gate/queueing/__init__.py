"""Admission to the engine: fair queue, KV budget, expected wait. Pure policies."""
