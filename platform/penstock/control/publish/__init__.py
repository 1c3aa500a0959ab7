"""The routing table, built from the catalogue and the living workers."""
