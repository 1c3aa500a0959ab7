"""gRPC: the Open Inference Protocol's service, with health and reflection.

A call is an exchange of its own through the same pipeline, with its own kind of ``Reply`` (ADR 0075). The package grpc
is imported when the server starts.
"""
