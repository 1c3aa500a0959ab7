"""Inside the engine's own process: the gate (``serve.py``) and its admission queue (``queueing/``)."""
