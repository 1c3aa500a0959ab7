"""Rollouts: the evidence on a candidate, and the state machine driven by it."""
