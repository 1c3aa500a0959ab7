"""Checks and warm-up of a started engine before it may serve: typical shapes, and golden prompts."""
