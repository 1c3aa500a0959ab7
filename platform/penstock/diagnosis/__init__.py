"""Names the bottleneck by rules: measurements of a time window become a snapshot, which the cases judge.

`measure` reads a recording, `cases` contains one rule each, `verdict` combines their judgements. Pure.
"""
