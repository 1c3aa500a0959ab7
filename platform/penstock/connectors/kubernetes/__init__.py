"""Kubernetes as the host of workers: the controller says versions and numbers, KEDA holds the numbers (ADR 0120)."""
