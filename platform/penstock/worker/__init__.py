"""The processes beside the GPU: an engine with its gate (``gate/``, ``engines/``), and the agent that controls it.

``gate/`` runs inside the engine's process, ``agent/`` in its own, and neither imports the other: shared settings are
here (``gate_config.py``).
"""
