"""Kubernetes as the host of workers: the controller owns versions, an autoscaler owns replica counts (ADR 0060)."""
