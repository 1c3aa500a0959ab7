"""The decision corridor: what exists, what runs, what is published to the gateways; ``loop.py`` shows its order."""
