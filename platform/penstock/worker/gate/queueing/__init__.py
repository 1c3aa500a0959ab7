"""When a request may enter the engine: the fair queue, the KV budget, the expected wait. Pure policies."""
