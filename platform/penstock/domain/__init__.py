"""The nouns of the platform: frozen values from the standard library only.

Nothing here waits, logs, measures or reads a clock.
"""
