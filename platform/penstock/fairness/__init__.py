"""Fair sharing between flows: start-time fair queueing for all queues, and a count of uses that fades. Pure."""
