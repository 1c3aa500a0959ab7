"""Penstock's infrastructure: typed config in, one Pulumi stack per concern and region out.

This package must not import the platform; the two meet only in container images and metric names.
"""
