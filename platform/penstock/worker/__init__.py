"""The processes beside the GPU: an engine with its gate (``gate/``, ``engines/``), and the agent that owns its life.

``gate/`` runs inside the engine's process, ``agent/`` in its own, and neither imports the other: what both must agree
on stands here (``gate_config.py``), with what either may use (``engines/``, ``artifacts/``).
"""
