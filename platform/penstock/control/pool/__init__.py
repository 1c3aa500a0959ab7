"""Decides which workers are awake and which sleep, if the deployed versions need more memory than there is."""
