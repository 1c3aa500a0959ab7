"""The process that owns an engine's life: from its files to its end, and what it reports of it meanwhile."""
