"""Turns weights on disk into a signed version in the store: read, convert, pack, publish; and the demo models.

It knows neither the store's location nor the signing key: both are ports.
"""
