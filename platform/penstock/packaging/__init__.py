"""From weights on disk to a signed version in the store: read, convert, pack, publish; the demo models.

It must not know the store's location nor the signing key: it has ports.
"""
