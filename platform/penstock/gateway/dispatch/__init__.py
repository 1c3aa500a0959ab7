"""Dispatch: sends a request to a worker; to another only before the first token and within the retry budget.

Workers' health is judged by evidence that callers can't produce: the platform's own probes (ADR 0043).
"""
