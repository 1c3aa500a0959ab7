"""Work that would block the event loop, done by child processes."""
