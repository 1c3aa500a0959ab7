"""The number of workers of each version: asked work against measured speed, in and out as values."""
