"""From weights on disk to a signed version in the store: reading, converting, packing, publishing, the demo models.

It must not know where the store is or whose key signs: it has ports.
"""
