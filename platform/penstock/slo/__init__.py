"""From promises to rules: objectives become recording rules and burn-rate alerts, budgets become verdicts.

Pure: it takes objects and gives objects. It reads no files, asks no Prometheus, and knows no process of the platform.
"""
