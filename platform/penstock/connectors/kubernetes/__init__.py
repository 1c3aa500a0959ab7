"""Kubernetes as the host of workers: the controller decides each version's replicas, KEDA applies the number (ADR
0120).
"""
