"""Streaming: sends a worker's answer to the client, token by token or whole."""
