"""What holds a platform up, by rules: measurements of a stretch of time become a snapshot, and the cases judge it.

`measure` reads a recording, `cases` hold one rule each, `verdict` puts their judgements together. All of it is pure:
where measurements come from, and how a verdict is shown, is others' business.
"""
