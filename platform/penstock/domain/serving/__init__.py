"""Values for one request: its content, its cost, the platform's promises for it, the reports about it."""
