"""Connectors to outside systems: one folder per system. Each fits the ports that it serves, and imports no other
connector.
"""
