"""The process that owns an engine's life: files, start, watch, end, reports."""
