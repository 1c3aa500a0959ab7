"""The routing table that gateways get, made of the catalogue and the living workers."""
