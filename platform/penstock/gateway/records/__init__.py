"""Records: figures and names of an ended request, for ``penstock explain``."""
