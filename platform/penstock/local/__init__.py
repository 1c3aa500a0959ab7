"""The local supervisor: ``penstock up`` starts, watches, restarts and drains one whole platform.

It knows processes, phases and the screen, and no requests: those go directly from gateway to worker.
"""
