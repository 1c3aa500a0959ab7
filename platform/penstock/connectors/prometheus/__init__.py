"""Prometheus: its configuration, and measurements, queried from it or read from the processes' own pages."""
