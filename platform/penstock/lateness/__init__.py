"""The lateness of this process's own event loop: a clock and timeouts for judging other processes.

A timer measures its own lateness: it compares the time for which it was set with the time at which it fires.
"""
