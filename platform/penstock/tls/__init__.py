"""Mutual TLS between the platform's own processes: who one is by its certificate, and who may call whom.

TLS 1.3 and nothing else. It must not know what is said on a connection, nor where settings come from.
"""
