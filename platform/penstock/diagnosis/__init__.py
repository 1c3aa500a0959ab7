"""Names the bottleneck by rules: measurements of a stretch of time become a snapshot, and the cases judge it.

`measure` reads a recording, `cases` hold one rule each, `verdict` puts their judgements together. All of it is pure: it
measures nothing and shows nothing.
"""
