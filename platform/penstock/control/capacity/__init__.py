"""The memory that versions need and the use of their workers; the autoscaler, to come, will set replica counts by them."""
