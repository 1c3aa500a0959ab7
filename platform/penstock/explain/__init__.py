"""Tells from records what happened and why, in plain sentences. Pure: it reads nothing and knows no process."""
