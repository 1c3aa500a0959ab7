"""KEDA as a client: the numbers of a controller's decisions, served over its protocol of external scalers."""
