"""A running platform as anybody could speak to it: its chat API, its operator API, and waiting for its workers."""
