"""What a team fills in: one file per environment, one per region. Read, typed and judged before any resource exists."""
