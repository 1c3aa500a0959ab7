"""Fair sharing between flows: start-time fair queueing for all queues, and a decaying count of uses. Pure."""
