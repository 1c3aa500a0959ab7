"""gRPC: the Open Inference Protocol's service, with health and reflection.

A call is an exchange of its own through the same pipeline, its answer another ``Reply`` (ADR 0075). grpc is imported
when the server starts.
"""
