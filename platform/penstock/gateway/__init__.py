"""The gateway: the stateless request pipeline in front of the workers; ``pipeline.py`` shows the order of its
stages.
"""
