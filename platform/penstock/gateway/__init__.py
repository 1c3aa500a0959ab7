"""The request corridor: stateless, in front of the workers; ``pipeline.py`` shows its order."""
