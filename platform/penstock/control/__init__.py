"""The decision corridor: what exists, what runs, what the gateways are told; ``loop.py`` shows its order."""
