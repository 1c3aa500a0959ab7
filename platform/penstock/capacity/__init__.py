"""What a version, a traffic and a machine need: bytes, replicas, GPUs, and the use of workers. Pure."""
