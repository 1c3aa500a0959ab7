"""Decides the number of workers of each version, from the work that requests ask for and the measured speed. Pure."""
