"""Explains from records in plain sentences what happened and why. Pure: it reads nothing and knows no process."""
