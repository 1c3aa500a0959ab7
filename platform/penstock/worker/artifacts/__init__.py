"""The files of a version on their way to the engine: fetched, checked, kept on the node.

Nothing here knows where artifacts are stored or how they are signed: both are ports. Nothing unverified leaves.
"""
