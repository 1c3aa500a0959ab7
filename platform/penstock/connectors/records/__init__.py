"""Records of requests and decisions on a process's own disk: bounded, and kept across restarts."""
