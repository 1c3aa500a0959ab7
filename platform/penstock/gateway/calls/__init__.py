"""State of one request that all stages share: the call, the ports on its answer's way, its fields."""
