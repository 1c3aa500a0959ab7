"""The process beside the GPU: one engine's life (``lifecycle.py``) and its gate (``serve.py``)."""
