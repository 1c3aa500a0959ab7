"""The constants of scaling, each with its unit and its reason.

What differs by version (bounds, idle time, price) is data: ``bounds.py``. Objectives come from ``slo/specs``.
"""

# Reports of gateways
RATE_S = 10.0
"""Seconds over which arrivals are a rate: at 5 requests/s its standard error is 14 %, and a crowd shows in 10 s."""
JUDGED_S = 60
"""Seconds over which late answers are a ratio: enough answers to judge 5 % at 1 request/s."""
SILENT_S = 5.0
"""Seconds without a report, of which one comes each second, after which a gateway is missing."""
GONE_S = 900.0
"""Seconds after which a silent gateway is gone for good: a node that is replaced takes fewer."""
MOST_GATEWAYS = 1_000
"""Gateways whose reports are kept: a name in each report must not fill the memory."""
MOST_COUNTED = 5_000
"""Versions and standings of one report: five standings of a thousand versions."""
MOST_TOLD_S = 100_000_000
"""Requests or tokens that one gateway counts in a second, or holds: a thousand times what one process relays."""
MOST_TOLD = 2.0**53
"""Above every counter, age and Unix second of a report: beyond it a float is no exact count."""

# Work
TARGET_LOAD = 0.8
"""Part of a worker's rate that is planned to be used: queueing delay doubles between 0.8 and 0.9 (M/G/1)."""
DRAIN_LEAST_S = 20.0
"""Seconds within which a backlog is worked off at the soonest: workers for less stand idle for most of their window."""
GROWTH_QUANTILE = 0.95
"""Quantile of demand's growth over a start that is provided for."""
GROWTH_MOST = 3.0
"""Largest growth that is provided for: above it a floor by clock is cheaper than the wait for the next crowd."""
GROWTH_LEAST_SAMPLES = 180
"""Samples of growth before it is believed; until then 1.0. Half an hour of them: one crowd is no rule."""
SAMPLE_S = 10.0
"""Seconds between two samples of asked work, one window of arrivals."""
SAMPLES = 360
"""Samples kept: one hour."""
START_DEFAULT_S = 120.0
"""Seconds of a start before one was measured: a 30B model from a local disk with a compile cache."""
STARTS = 8
"""Measured starts kept for each version; the longest of them is expected."""
OVERDUE_TIMES = 3.0
"""Times its expected start after which a worker that never reported is not waited for: no node has room for it."""

# Guards, which only add
GUARD_STEP = 0.25
"""Part of the serving workers that a guard adds: an error of the curve by that much is corrected in one step."""
PREDICTED_MOST = 1.0
"""Predicted P90 of TTFT or ITL over its objective, above which a guard adds."""
KV_MOST = 0.9
"""Mean KV use of the serving workers above which a guard adds: vLLM preempts running requests at 1.0."""
BURN_MOST = 2.0
"""Late answers over the error budget above which a guard adds: twice the budget's pace is no noise at 50 answers."""
JUDGED_LEAST = 50
"""Answers in the window before their lateness is judged."""
FULL_RATIO = 0.7
"""Mean batch fill, or KV use, below which no guard adds: slow answers of idle workers have another cause."""

# Out and in
IN_WINDOW_S = 300.0
"""Seconds of which the largest wish holds: longer than a start, so that what is ended is not started again at once."""
IN_EVERY_S = 15.0
"""Seconds between two steps in: longer than the window of arrivals, so that each is seen before the next."""
IN_PART = 0.1
"""Part of the workers that one step in takes, at least one."""
DEAD_BAND = 0.1
"""Part by which the need must be below fewer workers: rates err by that much at 10 requests/s."""
RESIDENCY_TIMES = 2.0
"""Times its start for which a worker stays at least, so that most of what it costs is service."""
SETTLE_S = 3.0
"""Seconds from out of the table to the end of an idle worker: gateways have the table within one of them, and a request
on its way arrives."""
IDLE_S = 600.0
"""Seconds without a request after which a version with floor 0 goes to zero, unless its bounds say other."""

# CPU tier
GATEWAY_TARGET_LOAD = 0.6
"""Part of a core that a gateway process is planned to use: one process can't share a turn of its loop."""
GATEWAY_LAG_MOST_S = 0.1
"""Delay of a gateway's event loop above which one more process is asked for: a tenth of the chat TTFT objective."""
