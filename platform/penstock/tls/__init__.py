"""Mutual TLS 1.3 between the platform's processes: identity from certificates, roles that may call one another.

It knows neither the protocol on a connection, nor the source of settings.
"""
