"""gRPC: the Open Inference Protocol's service beside the HTTP server, with health and reflection.

It is a second wire, not a client of the first: a call is an exchange of its own, on the same way through the same
stages, and its answer another ``Reply`` (ADR 0075). The library is imported at the server's start alone.
"""
