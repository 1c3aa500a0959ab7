"""The worker's queue's numbers, each with its unit, and the damage without it (ADR 0095)."""

from penstock.domain.tenancy.standing import Standing

# -- shares of the engine ------------------------------------------------------------------

LEVEL_WEIGHT = {
    Standing.INTERACTIVE: 16.0,
    Standing.PAID: 4.0,
    Standing.FREE: 2.0,
    Standing.BATCH: 1.0,
    Standing.OVER_QUOTA: 0.5,
    Standing.SHADOW: 0.5,
}
"""Weights of backlogged priority levels (70, 17, 9 and 4 %). Strict priority would starve batch work. Those of spare
levels count inside the engine alone: they enter only if no other request waits."""

STANDING_PART = {
    Standing.INTERACTIVE: 1.0,
    Standing.PAID: 0.9,
    Standing.FREE: 0.8,
    Standing.BATCH: 0.7,
    Standing.OVER_QUOTA: 0.6,
    Standing.SHADOW: 0.5,
}
"""Part of the engine that a level and those below it may hold together. A lower level would take the last slots. Spare
levels leave room beside whatever is held."""

KEPT_PART = 0.125
"""Part of the slots kept for active tenants below their share, one at least. Without it a burst waits for others'
answers to end."""

PREFILL_PART = 0.25
"""Part of a step that prompts may fill while several tenants are active. Without it the p99 time to first token beside
a flood rises from 1.08 to 1.32 times its own (C2)."""

FIRST_PREFILL_PART = 0.5
"""The same for a tenant's only request: it joins a step that a flood's prompts do not fill."""

OVERBOOKED_PART = 0.25
"""Part beyond a full engine that may be booked, if it can take slots back, for a tenant with nothing inside."""

MOST_OVERBOOKED_PART = 1.0
"""The same if tenants take turns inside the engine, for tenants below their share: a bound of its memory."""

KEPT_FREE = 0.25
"""Part of reserved, unused slots that stays free. A reserving tenant would wait for lent slots' answers to end."""

MOST_PROMISED = 0.8
"""Part of an engine that all reservations together take: the rest is for tenants without one."""

RESERVATION_HOLD_S = 3600.0
"""Seconds that a reservation holds after its tenant's last request."""

ACTIVE_S = 30.0
"""Seconds that a tenant counts as active after its last request: it may pause and find a slot again."""

# -- the order -----------------------------------------------------------------------------

MAX_BYPASSES = 8
"""Times that smaller work may overtake a head that does not fit yet. A large request would never find room."""

LOOK_AHEAD = 128
"""Flows asked for one choice, tenants expected back, retries due of one tenant: a bound of a look's cost."""

MOST_KNOWN = 1024
"""Entries of anything remembered about tenants or adapters: a bound of memory. A power of two."""

# -- waiting and coming back ---------------------------------------------------------------

WAIT_HEADROOM = 1.2
"""Factor on the expected wait, since requests come later that go first: some would wait and then be late."""

RETRY_HEADROOM = 1.3
"""The same for the wait that a refused caller is told: a caller that comes in vain has to come once more. With 1.2, p99
time to first token beside a flood rises from 1.28 to 1.34 times its own (``test_fairness.py``)."""

STAY_HEADROOM = 2.0
"""Factor on the expected time inside: about one of ten takes longer, and would be computed in vain."""

NEW_PART = 0.65
"""Part of its time that a new request may wait while retries of its tenant are due. Without it, callers that come when
told are taken in 29 % of cases, not in 90 %."""

LAPSE_S = 5.0
"""Seconds that a retry keeps its place after it was due: waits are told in whole seconds."""

LEAST_RETRY_S = 1.0
"""Least seconds that a refused caller is told: the header counts in seconds."""

MINUTE_S = 60.0
"""Most seconds that a refused caller is told: no forecast reaches further. Also the half-life of an adapter's uses, the
window of ``LOADS_PER_MINUTE``, and the memory of ended requests."""

# -- anticipation --------------------------------------------------------------------------

ANTICIPATION_PART = 0.5
"""Part of an answer's time that a flood's prompt stands back for a returning tenant, and part of that time that the
tenant usually pauses. Without it the ratio of C2 rises from 1.08 to 1.21."""

MOST_ANTICIPATION_S = 4.0
"""The same in seconds: however long answers take, a flood goes on."""

RESERVE_PART = 0.375
"""Part of the slots that may stay free meanwhile: else requests wait at half load."""

# -- estimates -----------------------------------------------------------------------------

FOLD_S = 0.25
"""Shortest span that makes a sample of the pace, in seconds: steps come in bursts."""

LEARNING = 0.1
"""Weight of the newest observation in a mean: of a tenant's pauses, of adapters' loads, of retries that came."""

REMEMBERED = 0.98
"""Part that sums of times and costs keep after the next request: the last fifty make the average."""

LEAST_LOOK_S = 1e-6
"""Least seconds until the queue asks to be looked at: less is now by its owner's clock, again and again."""

LOOK_S = 0.25
"""Seconds between looks at what no event tells, such as an adapter's load."""

# -- adapters ------------------------------------------------------------------------------

BOUND_S = 2.0
"""Seconds that an adapter waits for a slot to come free by itself; one with waiting requests keeps its slot for half
of that. Less swaps more; more lets other adapters wait."""

LOADS_PER_MINUTE = 30
"""Adapter loads in any minute. Without it an engine under a thousand adapters does nothing else."""

FIRST_LOAD_S = 2.0
"""Seconds that a load is believed to take at first; a refused pin is tried again after as long, then twice as long."""

LEAST_KEPT_S = 5.0
"""Seconds that a loaded adapter stays while requests wait for it: else its load was in vain."""

WISH_S = 10.0
"""Seconds that an adapter is wanted for a request that could not wait for its load: its caller comes again."""
