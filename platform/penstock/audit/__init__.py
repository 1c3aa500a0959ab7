"""The audit chain: what a link covers, what a head says, and what breaks a chain."""
