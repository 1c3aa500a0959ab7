"""Constants of the worker's queue, each with its unit, and the effect of leaving it out (ADR 0095)."""

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
"""Weights of backlogged priority levels (70, 17, 9 and 4 %). Strict priority would starve batch work. Weights of spare
levels count only inside the engine: their requests enter only if no other request waits.
"""

STANDING_PART = {
    Standing.INTERACTIVE: 1.0,
    Standing.PAID: 0.9,
    Standing.FREE: 0.8,
    Standing.BATCH: 0.7,
    Standing.OVER_QUOTA: 0.6,
    Standing.SHADOW: 0.5,
}
"""Part of the engine that a level and those below it may hold together. Without it a lower level would take the last
slots. Spare levels leave this room in addition to the slots in use.
"""

KEPT_PART = 0.125
"""Part of the slots kept for active tenants below their share, one at least. Without it a burst waits for others'
answers to end. The prompts of one list take no more at once, so that a later request waits for a few of them."""

PREFILL_PART = 0.25
"""Part of a step that prompts may fill while several tenants are active. Without it the p99 time to first token beside
a flood rises from 1.08 to 1.32 times the value without a flood (C2).
"""

FIRST_PREFILL_PART = 0.5
"""The same for a tenant's only request: it joins a step that the flood's prompts do not fill."""

OVERBOOKED_PART = 0.25
"""Part beyond a full engine that may be booked for a tenant with nothing inside, if the engine can preempt."""

MOST_OVERBOOKED_PART = 1.0
"""The same for tenants below their share, if tenants share the engine by time: it bounds memory."""

KEPT_FREE = 0.25
"""Part of reserved, unused slots that stays free. Without it a tenant with a reservation would wait for answers in lent
slots to end.
"""

MOST_PROMISED = 0.8
"""Part of an engine that all reservations together may take: the rest is for tenants without one."""

RESERVATION_HOLD_S = 3600.0
"""Seconds that a reservation holds after its tenant's last request."""

# -- the order -----------------------------------------------------------------------------

MAX_BYPASSES = 8
"""Number of smaller requests that may overtake a queue's first request while it does not fit. Without it a large
request would never find room.
"""

LOOK_AHEAD = 128
"""Flows examined for one choice, tenants expected to return, retries due of one tenant: it bounds the cost of a
decision.
"""

MOST_KNOWN = 1024
"""Entries of each table of tenants or adapters: it bounds memory. A power of two."""

# -- waiting and coming back ---------------------------------------------------------------

HEADROOM = 1.3
"""Factor on the expected wait, since later requests may go first: a waiting request would be late, and a caller that
honours ``Retry-After`` would return too early. With 1.2, p99 time to first token beside a flood rises from 1.28 to
1.34 times the value without one (``test_fairness.py``). Also divides the tolerated late events of promised work: at
1.0 batch work takes all of them, and what the gateway adds breaks the promise.
"""

STAY_HEADROOM = 2.0
"""Factor on the expected time inside: about one of ten takes longer, and would be computed in vain."""

NEW_PART = 0.65
"""Part of its time that a new request may wait while retries of its tenant are due. Without it, callers that honour
``Retry-After`` are admitted in 29 % of cases, not in 90 %.
"""

LAPSE_S = 5.0
"""Seconds that a retry keeps its place after it was due, since ``Retry-After`` has whole seconds."""

MINUTE_S = 60.0
"""Half-life of an adapter's uses, window of ``LOADS_PER_MINUTE``, and the seconds for which ended requests, and
adapters that could not be awaited, are remembered.
"""

# -- anticipation --------------------------------------------------------------------------

ANTICIPATION_PART = 0.5
"""Part of an answer's time for which a flood's prompt is delayed for a returning tenant, and largest usual pause of
that tenant as part of the delay. Without it the ratio of C2 rises from 1.08 to 1.21.
"""

MOST_ANTICIPATION_S = 4.0
"""The same in seconds: however long answers take, the flood is not delayed longer. For as long a promised tenant counts
as about after its last request: without it batch work fills the engine in each pause of a reader.
"""

RESERVE_PART = 0.375
"""Part of the slots that may stay free for anticipation: otherwise requests would wait at half load."""

# -- estimates -----------------------------------------------------------------------------

LEARNING = 0.1
"""Weight of the newest observation in a mean: of a tenant's pauses, of adapters' loads, of retries that arrived. Also
the part of batch work's slots that a late event takes: with less it yields more slowly, with more the slots swing.
"""

REMEMBERED = 0.98
"""Factor on sums of times and costs at each request: about the last fifty make the average."""

SLOWNESS_HALF_LIFE_S = 15.0
"""Half-life of evidence that an engine is slower than its step model. Without it a worker that was slow once is left
alone for good.
"""

AS_PREDICTED_S = 0.1
"""Seconds of first tokens that are taken as predicted. Without them one late token makes a worker slow."""

LOOK_S = 0.25
"""Seconds between checks of changes without an event, such as an adapter's load. Also the shortest sample of the pace,
since steps come in bursts: without it each burst of an idle engine would raise the pace.
"""

# -- adapters ------------------------------------------------------------------------------

BOUND_S = 2.0
"""Seconds that an adapter waits for an idle slot before one is closed for it, and that a loaded one stays while others
wait; it keeps its slot for half of that. A smaller value swaps more; a larger one lets other adapters wait. Also the
first estimate of a load, and the first pause of a refused pin; later pauses double.
"""

LOADS_PER_MINUTE = int(MINUTE_S / BOUND_S)
"""Adapter loads in any minute: as many as stays of a loaded one fit into it. Without it an engine used by a thousand
adapters would only load.
"""
