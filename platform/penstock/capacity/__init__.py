"""How many bytes a version needs, how many replicas and GPUs its traffic needs, and how well workers are used. Pure."""
