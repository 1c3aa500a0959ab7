"""The lateness of this process's own event loop: a clock and timeouts for judging other processes.

A timer measures its own lateness: it compares the time for which it was set with the time at which it fires.
"""

from penstock.lateness.awake import AwakeClock, AwakeTime, Timer, awake_time, timeout

__all__ = ["AwakeClock", "AwakeTime", "Timer", "awake_time", "timeout"]
