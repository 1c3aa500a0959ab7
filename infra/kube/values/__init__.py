"""The values of third-party charts: only what differs from a chart's defaults, and why it must."""
