"""Kubernetes as the host of the workers: the controller owns versions, an autoscaler owns numbers (ADR 0060)."""
