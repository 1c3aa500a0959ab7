"""Nouns of what runs: versions, workers, the routing table, decisions about them."""
