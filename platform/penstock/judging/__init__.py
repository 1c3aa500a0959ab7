"""Whether a version may go on beside another: sequential tests over counts of both, from nouns alone.

It knows neither rollouts' steps nor where counts come from.
"""
