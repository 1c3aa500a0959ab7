"""Penstock: a multi-tenant GPU inference platform."""

__version__ = "0.1.0"
