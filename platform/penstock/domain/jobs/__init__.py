"""Jobs: requests that nobody waits for, batches of them, their files and events."""
