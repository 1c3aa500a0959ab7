"""One gateway: its parts, and its process."""
