"""Metrics of content filters; part of the catalogue in ``names.py``."""

from penstock.telemetry.definitions import LATENCY_S, Label, counter, histogram

INTERVENTIONS = counter(
    "penstock_interventions",
    "Matches of safety packs, by rule (the first hundred; all others are `other`), stage and the action taken.",
    (Label.RULE, Label.STAGE, Label.OUTCOME),
)
MATCH_TEXTS_DROPPED = counter(
    "penstock_safety_match_texts_dropped",
    "Texts of matches that a tenant wants and that are not kept: its bound is met, or no key could be had.",
    (Label.OUTCOME,),
)
HOLD_SECONDS = histogram(
    "penstock_safety_hold_seconds",
    "Longest time that a stream's event was held back until its text was judged.",
    buckets=LATENCY_S,
)
HELD_EVENTS = histogram(
    "penstock_safety_held_events",
    "Most events, mostly of a token each, that a stream held back at once.",
    buckets=(0, 1, 2, 3, 5, 8, 12, 25, 50, 100, 200),
)
JUDGE_VERDICTS = counter(
    "penstock_safety_judge_verdicts",
    "Suspicions by what a rule's model said: confirmed, cleared, or block or release if it was away.",
    (Label.OUTCOME,),
)
JUDGE_SECONDS = histogram(
    "penstock_safety_judge_seconds",
    "Time until a rule's model had confirmed or cleared a suspicion, or was given up.",
    buckets=LATENCY_S,
)
HOLD_BOUNDS_MET = counter(
    "penstock_safety_hold_bounds_met",
    "Streams that held more or longer than their packs allow, by what the packs say then: block or release.",
    (Label.OUTCOME,),
)
