"""The Open Inference Protocol, version 2: tensors in, tensors out, the model in the path. REST here, gRPC beside it.

The protocol is a language, not a second platform: what it asks of a model that writes or embeds becomes the request
that the model's own API would bring, on the same way through the same stages (ADR 0075).
"""
