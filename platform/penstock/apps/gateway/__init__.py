"""One gateway: its parts put together, and the process that they run in."""
