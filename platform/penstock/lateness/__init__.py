"""The lateness of this process's own event loop: time, and time limits for all judgements of others.

A timer measures its own lateness: it compares the second for which it was set with the second in which it fires. Awake
seconds follow from that comparison; every judgement about another process, connection or caller uses them.
"""

from penstock.lateness.awake import AwakeClock, AwakeTime, Timer, awake_time, timeout

__all__ = ["AwakeClock", "AwakeTime", "Timer", "awake_time", "timeout"]
