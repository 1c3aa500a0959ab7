"""What lives inside the engine's own process: the gate (``serve.py``) and its admission queue (``admission/``)."""
