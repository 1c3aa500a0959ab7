"""The replicas that a controller decided, served to KEDA over its protocol of external scalers."""
