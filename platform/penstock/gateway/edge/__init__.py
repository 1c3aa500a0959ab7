"""Where HTTP begins and ends: nothing behind this room knows sockets, status codes or headers."""
