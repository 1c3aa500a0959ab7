"""Processes of this machine: the local fleet."""
