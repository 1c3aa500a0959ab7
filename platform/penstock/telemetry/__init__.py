"""How the platform says what happened: metric names, metrics, logs, traces."""
