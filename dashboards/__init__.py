"""Dashboards for Grafana, built from the catalogue of metrics: `make dashboards` writes build/dashboards/*.json."""
