"""The gateway's errors as answers over HTTP and gRPC, in the shape of each API."""
