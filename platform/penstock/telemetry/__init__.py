"""Telemetry of all processes: metric names, metrics, logs, traces."""
