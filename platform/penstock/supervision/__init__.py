"""Keeps the processes of one machine running: start, restart policy, lock of a home, inherited sockets."""
