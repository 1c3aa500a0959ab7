"""State of one request shared by all stages: the call, the ports of its answer, its fields."""
