"""The files of a version on their way to the engine: fetched, checked, kept on the node.

The store and the signature are ports. Nothing unverified leaves.
"""
