"""What the evidence says of a candidate, and how a rollout goes on from it. Pure; state is in memory alone."""
