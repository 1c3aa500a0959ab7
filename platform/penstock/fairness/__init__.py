"""Sharing between flows, one rule for all queues: start-time fair queueing, and a use count that fades. Pure."""
