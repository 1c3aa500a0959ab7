"""The gateway's errors as answers over HTTP and gRPC, in the form of each API."""
