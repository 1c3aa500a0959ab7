"""The memory that versions need, and the use of their workers. The planned autoscaler will set replicas by them."""
