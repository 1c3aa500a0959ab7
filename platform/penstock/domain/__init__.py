"""The platform's basic values: frozen classes from the standard library only.

Nothing here waits, logs, measures or reads a clock.
"""
