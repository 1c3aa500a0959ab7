"""Payloads of tenants, sealed; the objects are in a folder here, or in another connector's store."""
