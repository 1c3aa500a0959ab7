"""How many workers and gateways demand needs, and which worker goes: from reports, bounds and curves. Pure."""
