"""One request's shared state for all stages: the call, the answer's ports, its fields."""
