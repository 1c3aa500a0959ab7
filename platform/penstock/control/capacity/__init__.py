"""The memory that versions need, and the use of their workers. The autoscaler, to come, will set replicas by them."""
