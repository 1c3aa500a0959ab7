"""A version's files on their way to the engine: fetched, verified, cached on the node.

Store and signature check are ports. Nothing unverified leaves this room.
"""
