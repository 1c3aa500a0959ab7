"""How late this process's own event loop is: time and time limits for whatever judges others.

A timer knows its own lateness: it compares the second for which it was set with the second in which it fires. From that
one comparison come awake seconds, in which every judgement about another process, connection or caller is made.
"""

from penstock.lateness.awake import AwakeClock, AwakeTime, Timer, awake_time, timeout

__all__ = ["AwakeClock", "AwakeTime", "Timer", "awake_time", "timeout"]
