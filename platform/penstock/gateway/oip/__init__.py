"""The Open Inference Protocol, version 2, over REST and gRPC.

A request to a model that generates text or embeddings is translated into that model's own API and takes the same
pipeline (ADR 0075).
"""
