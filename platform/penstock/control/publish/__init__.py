"""What the gateways are told: the routing table, made of the catalogue and the living workers."""
