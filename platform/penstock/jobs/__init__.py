"""Running jobs beside the gateway: attempts, batches, deliveries, retention."""
