"""Rollouts: the evidence on a candidate, and the state machine that follows it. Pure; state is in memory alone."""
