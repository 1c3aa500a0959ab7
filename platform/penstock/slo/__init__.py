"""Objectives become recording rules and burn-rate alerts; error budgets become rollout decisions.

Pure. It reads no files, asks no Prometheus, and knows no process of the platform.
"""
